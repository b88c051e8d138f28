"""`DraftModelProposer`: a second, smaller model guesses, for all sequences of a step together.

A turn, for three sequences; what the draft model computes of each in its steps::

    knows of it             asked for    step 1         step 2   step 3
    all but t8 and t9       3            t8 t9 -> a     a -> b   b -> c      draft a b c
    all but t5              2            t5 -> d        d -> e               draft d e
    900 tokens of 2000      4            256 of them                         no draft yet

The next turn begins with what became of the guesses: those that did not stand are dropped from its cache.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from onnxgen.backends.base import Backend
from onnxgen.engine.speculation.base import Draft, Wanted
from onnxgen.engine.speculation.draft_cache import DraftCache, make_draft_cache
from onnxgen.engine.speculation.draft_options import DraftModelOptions
from onnxgen.engine.speculation.draft_rows import DraftRow
from onnxgen.engine.speculation.guesser import Guesser

_CACHE_MB = 512


class DraftModelProposer:
    """Guesses with a model of its own.

    Args:
        backend: Of the draft model; stays the caller's.
        vocab_size: Width of the logits of the model that it guesses for. Ids that only one of the two has are never
            guessed, and sequences with an id that the draft model lacks get no drafts.
        options: Budgets.
        eos_ids: Nothing is guessed behind one of them.
        num_tokens: Ids from here on are padding of the vocabulary; None: there is none.
        unused_ids: Likewise, holes among the others.
        max_seq_tokens: The longest sequence that the draft model is used for; None: what its backend takes.

    Raises:
        BackendError: The cache cannot be had.
    """

    name = "draft_model"
    needs_hidden_states = False

    def __init__(
        self,
        backend: Backend,
        *,
        vocab_size: int,
        options: DraftModelOptions | None = None,
        eos_ids: Collection[int] = (),
        num_tokens: int | None = None,
        unused_ids: Sequence[int] = (),
        max_seq_tokens: int | None = None,
    ) -> None:
        options = options or DraftModelOptions()
        limits = (backend.capabilities.max_context, max_seq_tokens)
        self._limit = min(n for n in limits if n is not None)
        self._own_vocab_size = backend.vocab_size
        self._catch_up_tokens = options.catch_up_tokens
        self._guesser = Guesser(
            vocab_size=vocab_size,
            eos_ids=eos_ids,
            num_tokens=num_tokens,
            unused_ids=unused_ids,
            min_confidence=options.min_confidence,
        )
        cache = make_draft_cache(
            backend,
            max_seq_tokens=self._limit,
            cache_mb=options.cache_mb,
            cache_tokens=options.cache_tokens,
            usual_mb=_CACHE_MB,
        )
        self._cache = DraftCache(backend, cache)

    @property
    def num_sequences(self) -> int:
        """Sequences in the draft model's cache."""
        return self._cache.num_sequences

    def propose(self, wanted: Sequence[Wanted]) -> list[Draft | None]:
        """A draft for each sequence; see `Proposer`.

        Raises:
            BackendError: The draft model failed.
            StateError: This proposer was closed.
        """
        self._cache.begin_turn(one.key for one in wanted)
        rows = {one.key: row for one in wanted if (row := self._begin(one)) is not None}
        counts, are_known = self._first_counts(rows), True
        while counts:
            ends, logits = self._cache.run(counts)
            going_on = self._guesser.guess([rows[key] for key in ends], logits)
            counts = {key: 1 for key, goes_on in zip(ends, going_on, strict=True) if goes_on}
            if are_known:
                self._cache.pin(counts)
            are_known = False  # from here on it computes guesses
        return [rows[one.key].draft if one.key in rows else None for one in wanted]

    def forget(self, key: int) -> None:
        """A sequence will not be asked for again."""
        self._guesser.forget(key)
        self._cache.forget(key)

    def close(self) -> None:
        """Release the cache. Calling it twice is harmless."""
        self._guesser.clear()
        self._cache.close()

    def check_integrity(self) -> None:
        """Check that every block is accounted for; for tests."""
        self._cache.check_integrity()

    def _begin(self, wanted: Wanted) -> DraftRow | None:
        """What is to be guessed of a sequence; None where the draft model is of no use."""
        history = wanted.history
        # the last guess is not computed, so it may be the first token beyond the limit
        limit = min(wanted.num_tokens, self._limit - len(history) + 1)
        if limit < 1 or int(history.max()) >= self._own_vocab_size:
            return None
        tokens = self._cache.follow(wanted.key, history, room=limit - 1, extra=wanted.extra)
        return None if tokens is None else self._guesser.begin(wanted, tokens, limit=limit)

    def _first_counts(self, rows: dict[int, DraftRow]) -> dict[int, int]:
        """How many tokens the first step computes of each: all where they are few, of the others as many as there may be."""
        counts, room = dict[int, int](), self._catch_up_tokens
        for key, pending in sorted(((key, self._cache.pending(key)) for key in rows), key=lambda p: p[1]):
            if pending <= rows[key].limit + 1:
                counts[key] = pending
            elif room:
                counts[key] = min(pending, room)
                room -= counts[key]
        return counts
