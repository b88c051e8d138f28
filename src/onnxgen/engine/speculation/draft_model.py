"""`DraftModelProposer`: a second, smaller model guesses, for all sequences of a step together.

A turn, for three sequences; what the draft model computes of each in its steps::

    knows of it             asked for    step 1         step 2   step 3
    all but t8 and t9       3            t8 t9 -> a     a -> b   b -> c      draft a b c
    all but t5              2            t5 -> d        d -> e               draft d e
    900 tokens of 2000      4            256 of them                         no draft yet

The next turn begins with what became of the guesses: those that did not stand are dropped from its cache.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import Backend, KVCache
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.rows import RowSampler
from onnxgen.engine.sampling.scoring import raw_logprobs
from onnxgen.engine.sampling.state import RowState
from onnxgen.engine.speculation.base import Draft, Wanted
from onnxgen.engine.speculation.draft_cache import DraftCache
from onnxgen.engine.speculation.draft_rows import DraftRow, guessing_options
from onnxgen.errors import ConfigError, OnnxgenError
from onnxgen.graph.cpu.draws import distribution

_MIB, _CACHE_MB = 1 << 20, 512
_PROBE_TOKENS = 256


@dataclass(frozen=True, slots=True)
class DraftModelOptions:
    """How a draft model is used.

    Attributes:
        cache_mb: Memory for its keys and values, in MiB; sequences that find no room there go without drafts. None: what
            ``cache_tokens`` says, and without that 512.
        cache_tokens: The same in token positions; not together with ``cache_mb``.
        catch_up_tokens: The most tokens, of all sequences together, that it computes at once of those that it does not
            know well enough to guess: prompts, and answers that it was not asked about for long. It begins to guess once
            it is there, and other sequences wait no longer than that takes.
        min_confidence: Where nothing is drawn: a token that the draft model gives less than this probability is not
            guessed, nor what would follow it. Where tokens are drawn, an unsure guess is as good as any other as long as
            the model is unsure too, so there is no such bound.
    """

    cache_mb: int | None = None
    cache_tokens: int | None = None
    catch_up_tokens: int = 256
    min_confidence: float = 0.3

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            ConfigError: Naming the field, its value and the range.
        """
        for name in ("cache_mb", "cache_tokens", "catch_up_tokens"):
            value: object = getattr(self, name)
            if value is None and name != "catch_up_tokens":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"{name} of a draft model is {value!r}; it must be an integer from 1 on")
        if self.cache_mb is not None and self.cache_tokens is not None:
            raise ConfigError(
                f"cache_mb={self.cache_mb} and cache_tokens={self.cache_tokens} both size the cache of a draft model; "
                "give one of them"
            )
        share: object = getattr(self, "min_confidence")  # noqa: B009 - callers may have no checker
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ConfigError(f"min_confidence of a draft model is {share!r}; it must lie in [0, 1]")


@dataclass(slots=True)
class _Known:
    """What is remembered of a sequence between turns."""

    asked: SamplingOptions
    options: SamplingOptions
    row_state: RowState


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
        self._vocab_size = vocab_size
        self._own_vocab_size = backend.vocab_size
        self._options = options
        self._eos_ids = frozenset(eos_ids)
        limits = (backend.capabilities.max_context, max_seq_tokens)
        self._limit = min(n for n in limits if n is not None)
        self._log_confidence = math.log(options.min_confidence) if options.min_confidence else -math.inf
        self._sampler = RowSampler(eos_ids=sorted(eos_ids), num_tokens=num_tokens, unused_ids=unused_ids)
        self._cache = DraftCache(backend, _make_cache(backend, options, max_seq_tokens=self._limit))
        self._known: dict[int, _Known] = {}

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
            going_on = self._guess([rows[key] for key in ends], logits)
            counts = {key: 1 for key, goes_on in zip(ends, going_on, strict=True) if goes_on}
            if are_known:
                self._cache.pin(counts)
            are_known = False  # from here on it computes guesses
        return [rows[one.key].draft if one.key in rows else None for one in wanted]

    def forget(self, key: int) -> None:
        """A sequence will not be asked for again."""
        self._known.pop(key, None)
        self._cache.forget(key)

    def close(self) -> None:
        """Release the cache. Calling it twice is harmless."""
        self._known.clear()
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
        tokens = self._cache.follow(wanted.key, history, room=limit - 1)
        if tokens is None:
            return None
        known = self._known_of(wanted)
        row = DraftRow(
            tokens,
            num_known=len(history),
            num_answered=wanted.row.num_new_tokens,
            options=known.options,
            row_state=known.row_state,
            limit=limit,
        )
        if wanted.mask_source is not None:
            row.grammar = wanted.mask_source.fork()
            row.mask = np.empty(-(-self._vocab_size // 32), np.uint32)
        return row

    def _known_of(self, wanted: Wanted) -> _Known:
        known = self._known.get(wanted.key)
        asked = wanted.row.options
        if known is None or known.asked is not asked:
            options = guessing_options(asked, own_sampler=wanted.row.sampler is not None)
            known = self._known[wanted.key] = _Known(asked, options, RowState())
        return known

    def _first_counts(self, rows: dict[int, DraftRow]) -> dict[int, int]:
        """How many tokens the first step computes of each: all where they are few, of the others as many as there may be."""
        counts, room = dict[int, int](), self._options.catch_up_tokens
        for key, pending in sorted(((key, self._cache.pending(key)) for key in rows), key=lambda p: p[1]):
            if pending <= rows[key].limit + 1:
                counts[key] = pending
            elif room:
                counts[key] = min(pending, room)
                room -= counts[key]
        return counts

    def _guess(self, rows: Sequence[DraftRow], logits: npt.NDArray[np.float32]) -> list[bool]:
        """Guess the next token of each; which go on after that."""
        fitting = [i for i, row in enumerate(rows) if _may_be_masked(row)]
        going_on = [False] * len(rows)
        if not fitting:
            return going_on
        own = logits if len(fitting) == len(rows) else logits[fitting]
        own, asked = _as_wide(own, self._vocab_size), [rows[i] for i in fitting]
        drawn_rows = [at for at, row in enumerate(asked) if not row.options.greedy]
        tokens, drawn = self._sampler.choose_and_keep(own, asked, keep=drawn_rows)
        for at, (row, token) in enumerate(zip(asked, tokens, strict=True)):
            if isinstance(token, OnnxgenError):
                continue
            if at in drawn:
                row.guess(token, distribution(drawn[at].row, drawn[at].draw))
            elif self._is_sure(own[at], token):
                row.guess(token, None)
            else:
                continue
            going_on[fitting[at]] = len(row.guesses) < row.limit and token not in self._eos_ids
        return going_on

    def _is_sure(self, logits: npt.NDArray[np.float32], token: int) -> bool:
        """Whether the draft model itself, before all changes, gives a token enough probability."""
        if self._log_confidence == -math.inf:
            return True
        score = raw_logprobs([logits], [token], [0])[0]
        return score is not None and score.logprob >= self._log_confidence


def _may_be_masked(row: DraftRow) -> bool:
    """Work out which tokens may follow; False where that fails, so that no more is guessed."""
    try:
        row.fill_mask()
    except OnnxgenError:
        return False
    return True


def _as_wide(logits: npt.NDArray[np.float32], width: int) -> npt.NDArray[np.float32]:
    """Rows cut, or filled up with tokens that are never chosen, to float32 ``[rows, width]``."""
    own = logits.shape[1]
    if own == width:
        return logits
    fitted = np.full((len(logits), width), -np.inf, np.float32)
    fitted[:, : min(own, width)] = logits[:, :width]
    return fitted


def _make_cache(backend: Backend, options: DraftModelOptions, *, max_seq_tokens: int) -> KVCache:
    """A cache of the memory that was asked for, or for one sequence if that is more than it."""
    num_tokens = options.cache_tokens or _tokens_in(
        (options.cache_mb or _CACHE_MB) * _MIB, backend, max_seq_tokens
    )
    if not backend.capabilities.paged:
        return backend.create_cache(num_seqs=max(num_tokens // max_seq_tokens, 1), num_tokens=max_seq_tokens)
    each = min(num_tokens, max_seq_tokens)
    return backend.create_cache(num_seqs=max(num_tokens // each, 1), num_tokens=each)


def _tokens_in(num_bytes: int, backend: Backend, max_seq_tokens: int) -> int:
    """How many positions of a backend's cache some memory is for."""
    probe = backend.create_cache(num_seqs=1, num_tokens=min(_PROBE_TOKENS, max_seq_tokens))
    size = probe.geometry
    token_bytes = max(probe.num_bytes // (size.num_blocks * size.block_size), 1)
    probe.close()
    return max(num_bytes // token_bytes, 1)
