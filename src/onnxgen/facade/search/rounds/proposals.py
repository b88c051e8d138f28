"""`Proposal` and `Proposer`: tokens that are thought to come next, and who thinks so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from onnxgen.facade.og_draws import Candidates
from onnxgen.facade.og_sampling import OgSampler
from onnxgen.facade.search.guide import Guide
from onnxgen.facade.search.round_counts import RoundCounts

Int64Array = npt.NDArray[np.int64]


@dataclass(slots=True)
class Proposal:
    """Tokens that are thought to come next, in order.

    Attributes:
        tokens: These.
        forced: Which of them a grammar forces: nothing is to be chosen there.
        drawn_from: What each was drawn from; None: it was not drawn, or is forced.
    """

    tokens: list[int] = field(default_factory=list[int])
    forced: list[bool] = field(default_factory=list[bool])
    drawn_from: list[Candidates | None] = field(default_factory=list["Candidates | None"])

    def add(self, token: int, *, drawn_from: Candidates | None = None) -> None:
        """A guess."""
        self.tokens.append(token)
        self.forced.append(False)
        self.drawn_from.append(drawn_from)

    def add_forced(self, tokens: Sequence[int]) -> None:
        """What a grammar forces."""
        self.tokens += tokens
        self.forced += [True] * len(tokens)
        self.drawn_from += [None] * len(tokens)


class Proposer(Protocol):
    """Guesses the next tokens of one sequence."""

    def propose(self, history: Int64Array, count: int, guide: Guide | None) -> Proposal:
        """Guess.

        Args:
            history: The sequence, int64 ``[n]``, valid during the call.
            count: How many tokens at most, at least 1.
            guide: The grammar that they are to follow.
        """
        ...

    def settle(self, history: Int64Array) -> None:
        """A round is over, and this is the sequence now."""
        ...

    def rewind(self) -> None:
        """The sequence is no longer what it was."""
        ...

    def fork(self, sampler: OgSampler, counts: RoundCounts) -> Proposer:
        """Another one for a copy of the sequence, which has that sampler and those counts."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...
