"""The seam between the engine and whatever guesses tokens ahead: `Proposer`, and what goes over it.

In every step the engine asks each proposer once, for all sequences that are about to compute their one pending token.
A draft is then computed in the same step, behind that token, and accepted as far as the model agrees::

    known       t0 ... t8   t9          t0 to t8 are in the cache, t9 is pending
    draft                       d0 d1 d2
    computed                t9  d0 d1 d2         four rows of logits
    accepted                    d0 d1            and one token more, from the row of d1
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.custom import SampledRow

Distribution = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
"""Token ids ``[n]`` and their probabilities, float64 ``[n]``; all other tokens have probability 0."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens that may follow a sequence.

    Attributes:
        tokens: In order, at least one.
        distributions: What each of them was drawn from. None: they are what the proposer always says here, and are
            accepted while they are the very tokens that are chosen without a draft.
        kind: Drafts of one kind are right about equally often, as their proposer knows; any small number.
    """

    tokens: tuple[int, ...]
    distributions: Sequence[Distribution] | None = None
    kind: int = 0


class MaskSource(Protocol):
    """Says which tokens may follow: what a proposer needs of a sequence's grammar."""

    @property
    def num_tokens(self) -> int:
        """Tokens of the answer that it has followed."""
        ...

    def valid_prefix(self, draft: Sequence[int], /) -> int:
        """How many tokens of a draft may follow, one after the other."""
        ...

    def fill_along(self, masks: npt.NDArray[np.uint32], draft: Sequence[int], /) -> None:
        """Which tokens may follow before each token of a draft, and after its last.

        Args:
            masks: uint32 ``[len(draft) + 1, words]``; bit t of word t // 32 is of token t.
            draft: Tokens that may follow.
        """
        ...

    def fork(self) -> MaskFork:
        """One at the same place that goes its own way."""
        ...


class MaskFork(Protocol):
    """Follows a draft token by token while it is made; belongs to the proposer that asked for it."""

    def follow(self, answer: Sequence[int] | npt.NDArray[np.int64], /) -> None:
        """Be where the answer so far leads, the draft included.

        Raises:
            GrammarError: It leads nowhere.
        """
        ...

    def fill(self, mask: npt.NDArray[np.uint32], /) -> None:
        """Which tokens may follow, uint32 ``[words]``.

        Raises:
            GrammarError: None may, or a limit was hit.
        """
        ...


@dataclass(slots=True)
class Wanted:
    """A sequence that a draft is wanted of.

    Attributes:
        key: The sequence's number. Until `Proposer.forget` it stands for one sequence.
        history: Its known tokens, int64 ``[tokens]``: a view, valid during the call. Against the call before it has
            grown, or, where it was rewound, has shrunk and grown again with other tokens.
        num_tokens: The most tokens that the draft may have.
        row: How its tokens are chosen; ``row.history`` is ``history``.
        min_match: See `Speculation.min_match`.
        hidden: Last hidden states of those tokens that were accepted since the call before, float32 ``[n, hidden]``, of
            the n tokens before the pending one; only for proposers that need them. None: they are not known.
        mask_source: Which tokens may follow; None: all.
        extra: What is computed of the sequence is shared only with sequences of the same: its salt, for one.
    """

    key: int
    history: npt.NDArray[np.int64]
    num_tokens: int
    row: SampledRow
    min_match: int = 1
    hidden: npt.NDArray[np.float32] | None = None
    mask_source: MaskSource | None = None
    extra: Hashable = None


class Proposer(Protocol):
    """Guesses tokens. For the one thread that owns the engine.

    Whatever it raises costs no request anything: the sequences go on without drafts, and after some failures the
    engine asks no more.
    """

    @property
    def name(self) -> str:
        """Its method, as `Speculation.method` has it."""
        ...

    @property
    def needs_hidden_states(self) -> bool:
        """Whether it wants `Wanted.hidden`."""
        ...

    def propose(self, wanted: Sequence[Wanted], /) -> Sequence[Draft | None]:
        """A draft for each sequence, of up to as many tokens as wanted; None: it has no guess."""
        ...

    def forget(self, key: int, /) -> None:
        """A sequence will not be asked for again. Unknown numbers are harmless."""
        ...

    def close(self) -> None:
        """Let go of everything. Calling it twice is harmless."""
        ...
