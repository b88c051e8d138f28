"""`DraftCache`: what a draft model has computed of sequences that others own, in blocks of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import Backend, BlockCopy, KVCache, SequenceInput, StepOutput, pack_step
from onnxgen.engine.pool_shape import shape_of
from onnxgen.engine.tokens import TokenBuffer
from onnxgen.errors import StateError
from onnxgen.kvcache.base import Extra
from onnxgen.kvcache.manager import CacheManager
from onnxgen.kvcache.reservation import Reservation
from onnxgen.kvcache.sequence import Checkpoint

Float32Array = npt.NDArray[np.float32]
Int64Array = npt.NDArray[np.int64]


_NOTHING: Mapping[str, Mapping[int, Float32Array]] = MappingProxyType({})
_MIB = 1 << 20
_PROBE_TOKENS = 256


def make_draft_cache(
    backend: Backend, *, max_seq_tokens: int, cache_mb: int | None, cache_tokens: int | None, usual_mb: int
) -> KVCache:
    """A cache of a size, or for one sequence if that is more.

    Args:
        backend: Makes it.
        max_seq_tokens: The longest sequence, in tokens.
        cache_mb: Its size, in MiB, or None.
        cache_tokens: Likewise in token positions, or None.
        usual_mb: Its size, in MiB, where nothing is said.

    Raises:
        BackendError: It cannot be had.
    """
    num_tokens = cache_tokens or _tokens_in((cache_mb or usual_mb) * _MIB, backend, max_seq_tokens)
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


@dataclass(slots=True)
class _Sequence:
    """A sequence as it is known here.

    Attributes:
        tokens: Its tokens, and behind them what was guessed of it: at least all that are computed.
        turn: The last turn that it took part in.
        checkpoint: What the model's state was at the end of its tokens, where the model cannot go back.
    """

    tokens: TokenBuffer = field(default_factory=TokenBuffer)
    turn: int = 0
    checkpoint: Checkpoint | None = None


class DraftCache:
    """Sequences in the cache of a draft model. For one thread.

    A turn is one round of guesses. Sequences that take no part in it give way to those that do; where that is not
    enough, a sequence is not kept at all, and tried anew in the next turn.

    Args:
        backend: Executes the steps; stays the caller's.
        cache: Made by it; closed with this object.
        share_prefixes: What is computed of tokens depends on these alone, so that sequences which begin alike can share it.
    """

    def __init__(self, backend: Backend, cache: KVCache, *, share_prefixes: bool = True) -> None:
        self._backend = backend
        self._cache = cache
        self._can = backend.capabilities
        shape = shape_of(cache.geometry, self._can, snapshot_tokens=1)
        # A state of a prompt's beginning costs a slot; here slots are for sequences.
        self._blocks = CacheManager(
            replace(shape, snapshot_tokens=None), prefix_reuse=share_prefixes and self._can.rewind
        )
        self._sequences: dict[int, _Sequence] = {}  # by turn
        self._turn = 0
        self._promised = 0  # blocks, in this turn
        self._closed = False

    @property
    def num_sequences(self) -> int:
        """Sequences that are kept."""
        return len(self._sequences)

    def begin_turn(self, keys: Iterable[int]) -> None:
        """Start a turn in which some sequences take part; the others may give way to them.

        Raises:
            StateError: The cache was closed.
        """
        if self._closed:
            raise StateError("the draft model's cache was closed; make a new one")
        self._turn += 1
        self._promised = 0
        for key in keys:
            sequence = self._sequences.pop(key, None)
            if sequence is not None:
                sequence.turn = self._turn
                self._sequences[key] = sequence

    def follow(
        self, key: int, history: Int64Array, *, room: int, keep: int | None = None, extra: Extra = None
    ) -> TokenBuffer | None:
        """Keep a sequence, as it is now.

        Args:
            key: The sequence's number; of one that takes part in this turn.
            history: Its tokens, at least one, int64 ``[tokens]``.
            room: How many more are to be computed of it in this turn.
            keep: Of what is computed, only so many tokens are as they should be; None: all that have not changed.
            extra: Beginnings are shared only with sequences of the same.

        Returns:
            Its tokens, to which guesses may be appended. None: there is no room for it, and it is not kept.
        """
        sequence = self._sequences.get(key)
        if sequence is None:
            sequence = self._sequences[key] = _Sequence(turn=self._turn)
            sequence.tokens.extend(history)
            self._blocks.open(key, sequence.tokens, extra=extra)
        else:
            self._go_back(key, sequence, history, keep=len(history) if keep is None else keep)
        if self._make_room(key, len(history) + room - self._blocks.length(key)):
            return sequence.tokens
        self.forget(key)
        return None

    def length(self, key: int) -> int:
        """Tokens of a sequence that are computed."""
        return self._blocks.length(key)

    def pending(self, key: int) -> int:
        """Tokens of a sequence that are not computed."""
        return len(self._sequences[key].tokens) - self._blocks.length(key)

    def run(self, counts: Mapping[int, int]) -> tuple[list[int], Float32Array]:
        """As `compute`; returns only the logits."""
        ends, output = self.compute(counts)
        return ends, output.logits

    def compute(
        self, counts: Mapping[int, int], beside: Mapping[str, Mapping[int, Float32Array]] = _NOTHING
    ) -> tuple[list[int], StepOutput]:
        """Compute tokens of sequences, in one step.

        Args:
            counts: How many of each, from the first that is not computed on.
            beside: By entry of ``Step.inputs`` the rows that the model reads beside these tokens, of each sequence float32
                ``[count, width]``; hidden states are then wanted, too.

        Returns:
            The sequences that are computed up to their last token, and what comes after these, a row for each. Sequences
            for which blocks are short stay as they are.

        Raises:
            BackendError: The step failed; all sequences are as they were.
        """
        reservation = self._blocks.begin_step()
        reserved = dict[int, int]()
        try:
            for key, count in counts.items():
                granted = reservation.extend(key, count)
                if granted:
                    reserved[key] = granted
            if not reserved:
                return [], StepOutput(np.empty((0, self._backend.vocab_size), np.float32))
            ends = [key for key, count in reserved.items() if count == self.pending(key)]
            output = self._execute(reserved, reservation, beside)
        except BaseException:
            for key in reserved:
                reservation.rollback(key)
                if not self._can.rewind:  # nobody knows whether the state has gone on
                    self._blocks.rewind(key, 0)
            raise
        for key, count in reserved.items():
            # what is behind whole blocks may be guesses: nobody else should hold it, so that it can be written again
            reservation.commit_accepted(key, self._sequences[key].tokens, count)
        return ends, output

    def pin(self, keys: Iterable[int]) -> None:
        """Where the model cannot go back by itself: what is computed of sequences now is what they can go back to."""
        if self._can.rewind or not self._can.copy_blocks:
            return
        for key in keys:
            sequence = self._sequences[key]
            self._unpin(sequence)
            sequence.checkpoint = self._blocks.checkpoint(key)

    def forget(self, key: int) -> None:
        """Keep a sequence no longer. Unknown numbers are harmless."""
        sequence = self._sequences.pop(key, None)
        if sequence is not None:
            self._unpin(sequence)
            self._blocks.release(key, sequence.tokens)

    def close(self) -> None:
        """Release the memory. Calling it twice is harmless."""
        self._closed = True
        self._sequences.clear()
        self._cache.close()

    def check_integrity(self) -> None:
        """Check that every block is accounted for; for tests."""
        self._blocks.check_integrity()

    def _go_back(self, key: int, sequence: _Sequence, history: Int64Array, *, keep: int) -> None:
        """Drop what the sequence does not hold (any more), and take over what is new. Its last token is not computed then."""
        tokens = sequence.tokens
        common = _common_length(tokens.view(), history)
        kept = min(common, len(history) - 1, keep)
        if kept < self._blocks.length(key):
            checkpoint = sequence.checkpoint
            if checkpoint is not None and checkpoint.length <= kept:
                self._blocks.restore(checkpoint)
            else:
                self._blocks.rewind(key, kept)
        self._unpin(sequence)
        tokens.truncate(common)
        tokens.extend(history[common:])

    def _make_room(self, key: int, num_tokens: int) -> bool:
        """See to it that a sequence may grow, and so may those that were told so before it in this turn."""
        size = self._blocks.shape.block_size
        more = -(-(self._blocks.length(key) + num_tokens) // size) - len(self._blocks.blocks(key))
        while self._blocks.missing_blocks(num_tokens + self._promised * size, seq=key):
            oldest = next(iter(self._sequences))
            if self._sequences[oldest].turn == self._turn:
                return False
            self.forget(oldest)
        self._promised += more
        return True

    def _execute(
        self,
        counts: Mapping[int, int],
        reservation: Reservation,
        beside: Mapping[str, Mapping[int, Float32Array]],
    ) -> StepOutput:
        inputs: list[SequenceInput] = []
        for key, count in counts.items():
            start = self._blocks.length(key)
            inputs.append(
                SequenceInput(
                    token_ids=self._sequences[key].tokens.view()[start : start + count],
                    context_len=start,
                    blocks=reservation.blocks(key),
                    logits="last" if count == self.pending(key) else "none",
                    window_blocks=reservation.window_blocks(key),
                )
            )
        copies = [BlockCopy(c.source, c.target, c.num_tokens, c.group) for c in reservation.copies()]
        rows = {
            name: np.concatenate([given[key][:count] for key, count in counts.items()])
            for name, given in beside.items()
        }
        wants_hidden = bool(beside) and self._can.hidden_states
        step = pack_step(inputs, copies=copies, inputs=rows, want_hidden_states=wants_hidden)
        return self._backend.execute(step, self._cache)

    def _unpin(self, sequence: _Sequence) -> None:
        if sequence.checkpoint is not None:
            self._blocks.drop(sequence.checkpoint)
            sequence.checkpoint = None


def _common_length(some: Int64Array, others: Int64Array) -> int:
    """How many tokens two sequences begin with in common."""
    length = min(len(some), len(others))
    same = some[:length] == others[:length]
    return length if same.all() else int(same.argmin())
