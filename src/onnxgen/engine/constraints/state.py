"""`GrammarState`: where in a grammar the answer to one request is, and what may follow."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from onnxgen.errors import GrammarError

if TYPE_CHECKING:
    from llguidance import LLMatcher

    from onnxgen.engine.constraints.vocabulary import Vocabulary

_NOTHING = np.zeros(0, np.int64)


class GrammarState:
    """Follows the tokens of an answer. Used by one thread at a time; states are independent of each other.

    A token that ends the answer may come where the grammar accepts, or where it names that token; after one only
    such tokens may come.

    Nothing that a matcher consumed is ever taken back: `LLMatcher.rollback` of llguidance 1.9 leaves what a later
    mask can be wrong by. Looking ahead is done on a copy, going back begins anew.

    Args:
        matcher: A matcher that has consumed nothing; copied, and left as it is.
        vocabulary: The tokens.
        fast_forward: Whether `forced` gives anything.
    """

    def __init__(self, matcher: LLMatcher, vocabulary: Vocabulary, *, fast_forward: bool) -> None:
        self._start = matcher
        self._matcher = matcher.deep_copy()
        self._vocabulary = vocabulary
        self._fast_forward = fast_forward and vocabulary.is_canonical
        self._tokens = np.zeros(64, np.int64)
        self._num_tokens = 0
        # The last so many of them are end tokens, which the matcher is never shown.
        self._num_ends = 0
        self._mask_bytes = (vocabulary.vocab_size + 31) // 32 * 4

    @property
    def num_tokens(self) -> int:
        """Tokens of the answer followed so far."""
        return self._num_tokens

    @property
    def accepts_end(self) -> bool:
        """The answer may end here."""
        return self._num_ends > 0 or self._matcher.is_accepting()

    @property
    def is_complete(self) -> bool:
        """Nothing but the end can follow."""
        return self._num_ends > 0 or (self._matcher.is_stopped() and not self._matcher.is_error())

    def follow(self, answer: Sequence[int] | NDArray[np.integer]) -> None:
        """Be where the tokens of the answer so far lead.

        What is new is consumed. Where something is gone or different since the last call, the whole answer is.

        Args:
            answer: All tokens of the answer so far.

        Raises:
            GrammarError: The grammar does not allow one of them, or a limit was hit. The state stays where the
                tokens before it lead.
        """
        wanted = np.asarray(answer, np.int64) if len(answer) else _NOTHING
        common = self._common(wanted)
        self._go_back(common)
        for token in wanted[common:].tolist():
            self._consume(token)

    def is_on_the_way_to(self, answer: NDArray[np.int64]) -> bool:
        """Whether `follow` has nothing to do again: the answer begins with what was followed so far."""
        return self._common(answer) == self._num_tokens

    def advance(self, tokens: Sequence[int]) -> None:
        """Go on with further tokens: what `follow` does, for who knows what is new, in a third of the time.

        Args:
            tokens: Those behind the answer so far.

        Raises:
            GrammarError: The grammar does not allow one of them, or a limit was hit. The state stays where the
                tokens before it lead.
        """
        for token in tokens:
            self._consume(token)

    def fill(self, mask: NDArray[np.uint32]) -> None:
        """Say which tokens may follow: bit ``t % 32`` of word ``t // 32`` is token ``t``.

        Args:
            mask: uint32 [ceil(vocab_size / 32)], contiguous; written whole, bits beyond the vocabulary are 0.

        Raises:
            GrammarError: A limit was hit, or nothing may follow at all.
        """
        self._check_mask(mask)
        if self._num_ends:
            self._fill_end(mask)
            return
        self._matcher.unsafe_compute_mask_ptr(mask.__array_interface__["data"][0], self._mask_bytes)
        self._check()

    def fill_along(self, masks: NDArray[np.uint32], draft: Sequence[int]) -> None:
        """Say what may follow before each token of a draft and after its last.

        Rows after a token that may not come are left as they are; the state does not move.

        Args:
            masks: uint32 [len(draft) + 1, ceil(vocab_size / 32)].
            draft: Tokens that may follow.

        Raises:
            GrammarError: A limit was hit.
        """
        self.fill(masks[0])
        ahead = self
        for place, token in enumerate(draft):
            if not ahead._may_follow(token):
                return
            if ahead is self:
                ahead = self.fork()
            ahead._consume(token)
            ahead.fill(masks[place + 1])

    def valid_prefix(self, draft: Sequence[int]) -> int:
        """How many tokens of a draft may come, one after the other; the state does not move."""
        ahead = self
        for place, token in enumerate(draft):
            if place:
                if ahead is self:
                    ahead = self.fork()
                ahead._consume(draft[place - 1])
            if not ahead._may_follow(token):
                return place
        return len(draft)

    def forced(self) -> tuple[int, ...]:
        """Tokens that must follow now, as the tokenizer would write them; never an end token."""
        if not self._fast_forward or self._num_ends or self._matcher.is_stopped():
            return ()
        tokens = tuple(self._matcher.compute_ff_tokens())
        self._check()
        return tokens

    def fork(self) -> GrammarState:
        """A state at the same place that goes its own way."""
        twin = copy(self)
        twin._matcher = self._matcher.deep_copy()
        twin._tokens = self._tokens.copy()
        return twin

    def _common(self, wanted: NDArray[np.int64]) -> int:
        size = min(len(wanted), self._num_tokens)
        same = wanted[:size] == self._tokens[:size]
        return size if same.all() else int(same.argmin())

    def _go_back(self, place: int) -> None:
        shown = self._num_tokens - self._num_ends
        if place < shown:
            matcher = self._start.deep_copy()
            if matcher.try_consume_tokens(self._tokens[:place].tolist()) != place:
                raise GrammarError(f"the grammar cannot be followed again up to place {place} of the answer")
            self._matcher = matcher
        self._num_ends = max(0, place - shown)
        self._num_tokens = place

    def _consume(self, token: int) -> None:
        if token in self._vocabulary.eos_ids and self._ends(token):
            self._num_ends += 1
        elif self._num_ends or not self._is_row(token) or self._matcher.try_consume_tokens([token]) != 1:
            self._check()
            raise GrammarError(f"token {token} may not come at place {self._num_tokens} of the answer")
        if self._num_tokens == len(self._tokens):
            self._tokens = np.resize(self._tokens, 2 * len(self._tokens))
        self._tokens[self._num_tokens] = token
        self._num_tokens += 1

    def _may_follow(self, token: int) -> bool:
        if self._ends(token):
            return True
        if self._num_ends or not self._is_row(token):
            return False
        allowed = self._matcher.validate_tokens([token]) == 1
        self._check()
        return allowed

    def _is_row(self, token: int) -> bool:
        # A matcher that is shown another id is broken for good.
        return 0 <= token < self._vocabulary.vocab_size

    def _ends(self, token: int) -> bool:
        if token not in self._vocabulary.eos_ids:
            return False
        if self.accepts_end:
            return True
        # A grammar may name an end token where it does not accept; the answer is over all the same.
        mask = np.empty(self._mask_bytes // 4, np.uint32)
        self.fill(mask)
        return bool(mask[token // 32] >> np.uint32(token % 32) & np.uint32(1))

    def _fill_end(self, mask: NDArray[np.uint32]) -> None:
        mask[:] = 0
        for token in self._vocabulary.eos_ids:
            mask[token // 32] |= np.uint32(1 << token % 32)

    def _check_mask(self, mask: NDArray[np.uint32]) -> None:
        if mask.dtype != np.uint32 or mask.nbytes != self._mask_bytes or not mask.flags.c_contiguous:
            raise ValueError(
                f"a mask is uint32 [{self._mask_bytes // 4}], contiguous, got {mask.dtype} {list(mask.shape)}"
            )

    def _check(self) -> None:
        if self._matcher.is_error():
            raise GrammarError(f"the grammar cannot be followed any further: {self._reason()}")

    def _reason(self) -> str:
        return self._matcher.get_error().split("\n<", 1)[0].strip()
