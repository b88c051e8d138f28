"""`NGrams`: what came after the last tokens when they came before, as onnxruntime-genai looks it up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from onnxgen.facade.og_sampling import OgSampler
from onnxgen.facade.search.guide import Guide
from onnxgen.facade.search.round_counts import RoundCounts
from onnxgen.facade.search.rounds.proposals import Proposal

Int64Array = npt.NDArray[np.int64]


class NGramIndex:
    """Of every run of ``size - 1`` tokens with one behind it, where it began last.

    Args:
        size: 2 or more.
    """

    def __init__(self, size: int) -> None:
        self._key = size - 1
        self._tokens: list[int] = []
        self._last: dict[tuple[int, ...], int] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def extend(self, tokens: Sequence[int]) -> None:
        """The sequence goes on."""
        first = max(len(self._tokens) - self._key, 0)
        self._tokens += tokens
        for start in range(first, len(self._tokens) - self._key):
            self._last[tuple(self._tokens[start : start + self._key])] = start

    def copy(self) -> NGramIndex:
        """Another one of the same tokens."""
        other = NGramIndex(self._key + 1)
        other._tokens, other._last = self._tokens.copy(), self._last.copy()
        return other

    def continuation(self, count: int) -> list[int]:
        """At most ``count`` tokens that came after the last occurrence of the sequence's end."""
        if len(self._tokens) < self._key:
            return []
        start = self._last.get(tuple(self._tokens[len(self._tokens) - self._key :]))
        return [] if start is None else self._tokens[start + self._key : start + self._key + count]

    def chain(self, count: int) -> list[int]:
        """At most ``count`` tokens, each of them looked up behind those before it."""
        if len(self._tokens) < self._key:
            return []
        context = tuple(self._tokens[len(self._tokens) - self._key :])
        found: list[int] = []
        while len(found) < count and (start := self._last.get(context)) is not None:
            found.append(self._tokens[start + self._key])
            context = (*context[1:], found[-1])
        return found


class NGrams:
    """Guesses that the sequence repeats itself. See `onnxgen.facade.search.rounds.proposals.Proposer`.

    Args:
        size: Looks for the last ``size - 1`` tokens.
        chained: Looks again behind each token that was found.
        eos_ids: Tokens behind which nothing comes.
        counts: Told of what happens.
        clock: Seconds.
    """

    def __init__(
        self,
        size: int,
        *,
        chained: bool,
        eos_ids: Sequence[int],
        counts: RoundCounts,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._size, self._chained, self._eos_ids = size, chained, eos_ids
        self._counts, self._clock = counts, clock
        self._index = NGramIndex(size)

    def propose(self, history: Int64Array, count: int, guide: Guide | None) -> Proposal:
        """Look the sequence's end up; with a grammar, what it forces comes first, and what it does not allow is left out."""
        self.settle(history)
        proposal = Proposal()
        if guide is not None and (forced := guide.forced()):
            proposal.add_forced(forced[:count])
            return proposal
        started = self._clock()
        found = self._index.chain(count) if self._chained else self._index.continuation(count)
        self._counts.total_ngram_lookup_ms += (self._clock() - started) * 1000
        num_guessed = len(found)
        if guide is None:
            for token in found:
                proposal.add(token)
        else:
            num_guessed = self._add_allowed(proposal, found, count, guide)
        self._count(bool(found), num_guessed)
        return proposal

    def settle(self, history: Int64Array) -> None:
        """Take over what is new of the sequence."""
        new = len(history) - len(self._index)
        if not new:
            return
        started = self._clock()
        self._index.extend(history[-new:].tolist())
        self._counts.total_ngram_history_sync_ms += (self._clock() - started) * 1000
        self._counts.ngram_history_syncs += 1
        self._counts.ngram_history_tokens_synced += new

    def rewind(self) -> None:
        """Begin anew: what is looked up is the last occurrence before the sequence's end."""
        self._index = NGramIndex(self._size)

    def fork(self, sampler: OgSampler, counts: RoundCounts) -> NGrams:
        """Another one of the same sequence."""
        del sampler
        other = NGrams(
            self._size, chained=self._chained, eos_ids=self._eos_ids, counts=counts, clock=self._clock
        )
        other._index = self._index.copy()
        return other

    def close(self) -> None:
        """There is nothing to release."""

    def _add_allowed(self, proposal: Proposal, found: Sequence[int], count: int, guide: Guide) -> int:
        for at, token in enumerate(found):
            if not guide.follow(proposal.tokens).valid_prefix([token]):
                self._counts.ngram_grammar_candidate_rejections += 1
                return at
            proposal.add(token)
            if token in self._eos_ids:
                return at + 1
            if forced := guide.forced(proposal.tokens):
                proposal.add_forced(forced[: count - at - 1])
                return at + 1
        return len(found)

    def _count(self, is_hit: bool, num_guessed: int) -> None:
        counts = self._counts
        counts.ngram_lookup_hits += is_hit
        counts.ngram_lookup_misses += not is_hit
        counts.ngram_lookup_tokens_proposed += num_guessed
        if self._chained and num_guessed > 1:
            counts.ngram_chained_tokens_proposed += num_guessed - 1
