"""`Following`: what drafts have been to one sequence so far."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sample import Sample
from onnxgen.engine.speculation.acceptance_rates import AcceptanceRates
from onnxgen.engine.speculation.asking import AskedProposer
from onnxgen.engine.speculation.base import Draft
from onnxgen.engine.speculation.options import Speculation

_MEMORY = 24
"""Drafts of a sequence that count for what the next one is thought to bring, about."""

_FIRST_REST, _LONGEST_REST = 16, 512
"""Steps without drafts after which a sequence gets one for a trial, if guessing takes time: they double."""

_IDLE_STEPS = 8
"""Drafts in a row that were not worth computing after which a sequence counts as switched off."""

_QUIET_ASKS, _QUIET_TOKENS = 8, 4
"""After so many times that there was no draft in a row, one is asked for every few tokens only: asking takes time as well."""

_MOST_HIDDEN = 4096
"""Rows of hidden states that are kept until somebody asks for them."""


class Following:
    """What is known of one sequence.

    Args:
        sample: The sequence.
        options: What was asked for.
        proposer: Guesses its tokens.
        others: What is known of other sequences with this proposer.

    Attributes:
        rates: How often its drafts are right.
        is_off: Whether drafts are left out because they do not pay.
    """

    __slots__ = (
        "_hidden",
        "_hidden_end",
        "_idle",
        "_rest",
        "_resting",
        "_shadow",
        "_silences",
        "is_off",
        "options",
        "proposer",
        "rates",
        "sample",
    )

    def __init__(
        self, sample: Sample, options: Speculation, proposer: AskedProposer, *, others: AcceptanceRates
    ) -> None:
        self.sample = sample
        self.options = options
        self.proposer = proposer
        self.rates = AcceptanceRates(memory=_MEMORY, others=others)
        self.is_off = False
        self._idle = self._silences = 0
        self._rest, self._resting = _FIRST_REST, 0
        self._shadow: tuple[int, Draft, int] | None = None
        self._hidden: list[npt.NDArray[np.float32]] = []
        self._hidden_end = 0

    def note_worth(self, length: int) -> bool:
        """A draft was there, and so much of it was worth computing; returns whether that switched drafts off or on."""
        self._idle = 0 if length else self._idle + 1
        was_off, self.is_off = self.is_off, self._idle >= _IDLE_STEPS
        return was_off != self.is_off

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to expect of asking for a draft just now."""
        return self._silences >= _QUIET_ASKS and self.sample.num_tokens % _QUIET_TOKENS != 0

    def note_asked(self, length: int) -> None:
        """A draft was asked for, and so much of it is computed."""
        self._silences = 0 if length else self._silences + 1

    def trial(self, length: int, *, most: int) -> int:
        """``length``, or where that is 0 now and then a little more, to see what a draft would bring."""
        if length:
            self._rest, self._resting = _FIRST_REST, 0
            return length
        self._resting += 1
        if self._resting < self._rest:
            return 0
        self._rest, self._resting = min(2 * self._rest, _LONGEST_REST), 0
        return min(2, most)

    def watch(self, draft: Draft, *, computed: int = 0) -> None:
        """Of a draft only so many tokens are computed: see from those that come whether the rest would have been right."""
        if self._shadow is None:
            self._shadow = self.sample.num_tokens, draft, computed

    def look_back(self) -> None:
        """Compare what was not computed of a draft with what has come since."""
        if self._shadow is None:
            return
        start, draft, computed = self._shadow
        come = self.sample.history[start : start + len(draft.tokens)]
        wrong = np.flatnonzero(come != np.array(draft.tokens[: len(come)], np.int64))
        if len(wrong) or len(come) == len(draft.tokens):
            accepted = int(wrong[0]) if len(wrong) else len(come)
            if not computed:
                self.rates.observe(draft.kind, proposed=len(draft.tokens), accepted=accepted)
            elif accepted >= computed:
                self.rates.observe_further(draft.kind, right=accepted - computed, wrong=bool(len(wrong)))
            self._shadow = None

    def keep_hidden(self, rows: npt.NDArray[np.float32], *, end: int) -> None:
        """Keep hidden states of the tokens before position ``end``, behind those that were kept before if they go on there."""
        if self._hidden_end != end - len(rows):
            self._hidden.clear()
        self._hidden.append(rows)
        self._hidden_end = end
        while sum(map(len, self._hidden)) > _MOST_HIDDEN:
            del self._hidden[0]

    def take_hidden(self) -> npt.NDArray[np.float32] | None:
        """The hidden states that were kept of the tokens before the last one; None: they are not known."""
        kept, self._hidden = self._hidden, []
        if not kept or self._hidden_end != self.sample.num_tokens - 1:
            return None
        return kept[0] if len(kept) == 1 else np.concatenate(kept)
