"""`DraftRow`: a sequence whose next token a draft model guesses, as a `RowSampler` wants it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import overload

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.rows import Drawn
from onnxgen.engine.sampling.state import RowState
from onnxgen.engine.speculation.base import Distribution, Draft, MaskFork
from onnxgen.engine.tokens import TokenBuffer
from onnxgen.graph.cpu.draws import distribution

_OWN_NUMBERS = 0x9E3779B97F4A7C15
"""Turns a seed into one whose random numbers are for guesses (the golden ratio in 64 bits; any other number would do)."""


def guessing_options(options: SamplingOptions, *, own_sampler: bool) -> SamplingOptions:
    """How a draft model chooses where a request's options say how its tokens are chosen.

    As the request does, with random numbers of its own, so that a guess says nothing of the number that a token is drawn
    with where nothing was guessed. XTC, whose coin is the request's, and Mirostat, which follows what was drawn, are left
    out: what is guessed then is drawn from another distribution, and that is told.

    Args:
        options: The request's, with a seed.
        own_sampler: The request chooses tokens by itself: then the best one is guessed.
    """
    assert options.seed is not None
    if own_sampler or options.greedy:
        return replace(options, temperature=0.0)
    return replace(options, seed=options.seed ^ _OWN_NUMBERS, xtc_probability=0.0, mirostat=0)


class DrawnShares(Sequence[Distribution]):
    """What guesses were drawn from: worked out when asked for, since most of it never is once a guess does not stand.

    Args:
        drawn: Of each guess.
    """

    def __init__(self, drawn: Sequence[Drawn]) -> None:
        self._drawn = drawn

    def __len__(self) -> int:
        """How many there are."""
        return len(self._drawn)

    @overload
    def __getitem__(self, at: int, /) -> Distribution: ...

    @overload
    def __getitem__(self, at: slice, /) -> DrawnShares: ...

    def __getitem__(self, at: int | slice, /) -> Distribution | DrawnShares:
        """One of them, or some."""
        if isinstance(at, slice):
            return DrawnShares(self._drawn[at])
        drawn = self._drawn[at]
        return distribution(drawn.row, drawn.draw)


@dataclass(slots=True, eq=False)
class DraftRow:
    """A sequence and what was guessed of it in this turn: a `SampledRow`.

    Attributes:
        tokens: Its tokens, guesses included.
        num_known: How many of them are no guesses.
        num_answered: How many of these are the answer's.
        options: How it is guessed what comes next; with a seed.
        row_state: What choosing has to remember.
        limit: The most tokens that are guessed.
        grammar: What it must look like; None: as it likes.
        mask: Which tokens may follow, uint32 ``[words]``; None: all.
        guesses: What was guessed.
        drawn: What that was drawn from; empty where nothing is drawn.
    """

    tokens: TokenBuffer
    num_known: int
    num_answered: int
    options: SamplingOptions
    row_state: RowState
    limit: int
    grammar: MaskFork | None = None
    mask: npt.NDArray[np.uint32] | None = None
    guesses: list[int] = field(default_factory=list[int])
    drawn: list[Drawn] = field(default_factory=list[Drawn])

    processors = ()
    sampler = None

    @property
    def num_tokens(self) -> int:
        """Length of the sequence, guesses included."""
        return len(self.tokens)

    @property
    def num_new_tokens(self) -> int:
        """How many of them are no prompt."""
        return self.num_answered + len(self.guesses)

    @property
    def history(self) -> npt.NDArray[np.int64]:
        """Its ids, int64 ``[num_tokens]``."""
        return self.tokens.view()

    @property
    def draft(self) -> Draft | None:
        """What was guessed; None: nothing."""
        if not self.guesses:
            return None
        return Draft(tuple(self.guesses), DrawnShares(self.drawn) if self.drawn else None)

    def fill_mask(self) -> None:
        """Work out which tokens may follow.

        Raises:
            GrammarError: None, or the guesses lead nowhere.
        """
        if self.grammar is not None and self.mask is not None:
            self.grammar.follow(self.history[self.num_known - self.num_answered :])
            self.grammar.fill(self.mask)

    def guess(self, token: int, drawn: Drawn | None) -> None:
        """Append what was guessed, and what it was drawn from."""
        self.tokens.append(token)
        self.guesses.append(token)
        if drawn is not None:
            self.drawn.append(drawn)
