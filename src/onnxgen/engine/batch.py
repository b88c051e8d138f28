"""`Batch`: a fixed set of sequences and the cache that holds them, kept up to date over the seam.

A row's tokens and what the cache holds of them are two lengths::

    tokens   [ t0 t1 t2 t3 t4 t5 t6 ]        what the sequence is
    cached   [ t0 t1 t2 t3 ]                 what the backend has seen
    pending                  [ t4 t5 t6 ]    what `Batch.forward` runs, in chunks; then ``logits`` is set

Appending and rewinding change the first only; the second follows when logits are wanted. So a step that
fails has changed no sequence, and a backend that cannot rewind is handled by setting ``cached`` to 0. Rows that
become copies of others (`Batch.reorder`) take over the blocks of rows that end; what these lack is copied by the
next step, before it runs.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import Backend, BlockCopy, KVCache, SequenceInput, Step, StepOutput, pack_step
from onnxgen.engine.embedded_tokens import EmbeddedTokens, extended
from onnxgen.engine.moved_blocks import move_blocks
from onnxgen.engine.row_copies import CachedRow, common_length, differing_blocks, heirs
from onnxgen.engine.tokens import TokenBuffer
from onnxgen.errors import BackendError, CapabilityError, ContextLengthError, StateError, TokenIdError
from onnxgen.foundations.reused_arrays import ReusedArrays

logger = logging.getLogger(__name__)

Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What a sequence was after its first ``length`` tokens, where the backend cannot go back to it by itself."""

    length: int
    long: bool
    content: npt.NDArray[np.uint8]
    # None where those of the model are not known
    logits: Float32Array | None
    hidden: Float32Array | None


@dataclass(slots=True)
class _Row:
    # which part of the cache is its own
    slot: int
    tokens: TokenBuffer = field(default_factory=TokenBuffer)
    cached: int = 0
    # which side of the rotary switch the cached keys were computed on
    long: bool = False
    # of the token after the last one, or None when they must be computed
    logits: Float32Array | None = None
    # whether somebody set them in place of the model's
    was_set: bool = False
    # of the last token, once somebody asked for hidden states
    hidden: Float32Array | None = None
    embedded: EmbeddedTokens | None = None
    snapshot: _Snapshot | None = None
    # whether some of what is cached is copied by the next step only
    awaits_copies: bool = False


class Batch:
    """A fixed number of sequences over one backend, with one cache of their own.

    Not safe to use from several threads at once.

    Args:
        backend: Executes the steps; stays the caller's.
        num_rows: Number of sequences.
        max_tokens: The longest any of them may become, in tokens.
        chunk_tokens: The most prompt tokens that one step processes.
        rope_switch_length: See `DecoderModel.rope_switch_length`.
        first_tokens: How long sequences may become before the cache is replaced by one twice as large, and so on. None:
            it has room for ``max_tokens`` from the beginning.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        num_rows: int,
        max_tokens: int,
        chunk_tokens: int,
        rope_switch_length: int | None = None,
        first_tokens: int | None = None,
    ) -> None:
        assert num_rows > 0 and max_tokens > 0 and chunk_tokens > 0 and first_tokens != 0
        self._backend = backend
        self._rows = [_Row(slot) for slot in range(num_rows)]
        self._max_tokens = max_tokens
        self._chunk_tokens = chunk_tokens
        self._rope_switch = rope_switch_length
        self._first_tokens = first_tokens or max_tokens
        self._stacked = ReusedArrays()
        # decode steps by the slots in them; their ids and lengths are of no matter
        self._layouts: dict[tuple[int, ...], Step] = {}
        # what the next step has to do first
        self._copies: list[BlockCopy] = []
        self._cache: KVCache | None = None
        self._capacity = 0
        self._closed = False
        self._keeps_hidden = False
        self._adapter: str | None = None

    @property
    def num_rows(self) -> int:
        """Number of sequences."""
        return len(self._rows)

    @property
    def max_tokens(self) -> int:
        """The longest a sequence may become, in tokens."""
        return self._max_tokens

    @property
    def cache_bytes(self) -> int:
        """Memory held by the cache; 0 before the first step."""
        return self._cache.num_bytes if self._cache else 0

    def length(self, row: int) -> int:
        """Number of tokens of a sequence."""
        return len(self._rows[row].tokens)

    def cached(self, row: int) -> int:
        """How many of a sequence's tokens need not be computed again."""
        return self._rows[row].cached

    def tokens(self, row: int) -> npt.NDArray[np.int64]:
        """Token ids of a sequence: a view, valid until the sequence changes."""
        return self._rows[row].tokens.view()

    def extend(
        self,
        row: int,
        ids: Sequence[int] | npt.NDArray[np.integer[Any]],
        *,
        embeds: Float32Array | None = None,
    ) -> None:
        """Append tokens to a sequence; nothing is computed yet.

        Args:
            row: The sequence.
            ids: Token ids.
            embeds: float32 ``[len(ids), width]``, what the model reads in place of their embeddings; the ids are then
                what the sequence is said to hold.

        Raises:
            TokenIdError: An id is outside the vocabulary.
            ContextLengthError: The sequence would become longer than ``max_tokens``.
        """
        if len(ids) == 0:
            return
        array = np.asarray(ids)
        bad = (array < 0) | (array >= self._backend.vocab_size)
        if bad.any():
            at = int(np.argmax(bad))
            raise TokenIdError(f"token id {array[at]} at {at} is outside [0, {self._backend.vocab_size})")
        tokens = self._rows[row].tokens
        if len(tokens) + len(array) > self._max_tokens:
            raise ContextLengthError(
                f"{len(array)} tokens after {len(tokens)} do not fit the maximum of {self._max_tokens} tokens"
            )
        if embeds is not None:
            assert len(embeds) == len(array)
            self._rows[row].embedded = extended(self._rows[row].embedded, len(tokens), embeds)
        tokens.extend(array)
        self._rows[row].logits = self._rows[row].hidden = None

    def append(self, row: int, token: int) -> None:
        """Append one token to a sequence: what `extend` does, at a fraction of its cost.

        Raises:
            TokenIdError: The id is outside the vocabulary.
            ContextLengthError: The sequence would become longer than ``max_tokens``.
        """
        state = self._rows[row]
        if not 0 <= token < self._backend.vocab_size or len(state.tokens) >= self._max_tokens:
            self.extend(row, [token])  # raises
        state.tokens.append(token)
        state.logits = state.hidden = None

    def truncate(self, row: int, length: int) -> None:
        """Rewind a sequence to its first ``length`` tokens. Continuing equals never having gone further."""
        state = self._rows[row]
        if length == len(state.tokens):
            return
        state.tokens.truncate(length)
        state.logits = state.hidden = None
        if state.embedded is not None:
            state.embedded = state.embedded.truncated(length)
        self._forget(state, length)
        snapshot = state.snapshot
        if snapshot is not None and length < snapshot.length:
            state.snapshot = None
        elif snapshot is not None and length == snapshot.length == state.cached:
            state.logits, state.hidden, state.was_set = snapshot.logits, snapshot.hidden, False

    def keep_snapshots(self, rows: Sequence[int]) -> None:
        """Make it cheap to rewind some sequences to what they are now, or to any length after it.

        Where the backend can go back to any length, or cannot give out what it holds, nothing is kept. The last snapshot
        of a sequence replaces the one before.

        Raises:
            StateError: A sequence has no tokens, or the batch is closed.
            BackendError: A step failed. The sequences are as they were.
        """
        if self._backend.capabilities.rewind:
            return
        self.forward(rows)
        for row in (self._rows[i] for i in rows):
            if self._cache is None or not row.cached or row.awaits_copies:
                continue  # what is still to be copied is kept by the row that it comes from
            (block,) = self._blocks(row.slot)
            known = row.cached == len(row.tokens) and not row.was_set and row.logits is not None
            row.snapshot = _Snapshot(
                row.cached,
                row.long,
                self._cache.export_block(block, row.cached),
                row.logits.copy() if known and row.logits is not None else None,
                row.hidden if known else None,
            )

    def set_logits(self, row: int, logits: Float32Array) -> None:
        """Replace the logits ``[vocab]`` of the token after a sequence's last one."""
        self._rows[row].logits, self._rows[row].was_set = logits, True

    def use_adapter(self, name: str | None) -> None:
        """Compute all sequences under an adapter of the backend, or under none; whoever says so keeps it loaded."""
        assert not any(row.cached for row in self._rows), "what is cached was computed by another adapter"
        self._adapter = name
        self._layouts.clear()

    def reorder(self, parents: Sequence[int]) -> None:
        """Let every sequence become a copy of one of them: tokens, cache and logits.

        Sequences that stay keep their cache. Of the others, only what differs from what a sequence that ends holds in the
        cache is copied, by the next step; where the backend cannot copy, it is computed again.

        Args:
            parents: Of each sequence, the one it becomes ``[rows]``.
        """
        assert len(parents) == len(self._rows)
        kept, old = heirs(parents), self._rows
        free = [row for row, heir in zip(old, kept, strict=True) if heir is None]
        self._rows = [
            old[parent] if kept[parent] == i else self._copy(old[parent], free)
            for i, parent in enumerate(parents)
        ]

    @contextlib.contextmanager
    def transaction(self) -> Generator[None]:
        """Take back what the block appended to the sequences when it raises. It must not rewind or reorder them."""
        saved = [(len(r.tokens), r.cached, r.logits, r.hidden, r.embedded) for r in self._rows]
        try:
            yield
        except BaseException:
            for row, (length, cached, logits, hidden, embedded) in zip(self._rows, saved, strict=True):
                row.tokens.truncate(length)
                self._forget(row, cached)
                row.logits, row.hidden, row.embedded = logits, hidden, embedded
            raise

    def forward(self, rows: Sequence[int]) -> Float32Array:
        """Logits of the token after the last one, for some of the sequences.

        Runs what the cache lacks; rows that are up to date cost nothing.

        Returns:
            float32 ``[rows, vocab]``, to be read only, and the caller's as long as it is held.

        Raises:
            StateError: A sequence has no tokens, or the batch is closed.
            BackendError: A step failed. The sequences are as they were.
        """
        if self._closed:
            raise StateError("the sequences were closed")
        if not rows:
            return np.empty((0, self._backend.vocab_size), np.float32)
        states = [self._rows[i] for i in rows]
        pending = [(i, r) for i, r in zip(rows, states, strict=True) if r.logits is None]
        for i, row in pending:
            if not len(row.tokens):
                raise StateError(f"sequence {i} has no tokens; append some first")
        if pending:
            self._reserve(max(len(r.tokens) for _, r in pending))
        for _, row in pending:
            self._prepare(row)
        while pending:
            self._step(pending)
            pending = [(i, r) for i, r in pending if r.logits is None]
        logits = [r.logits for r in states if r.logits is not None]
        if len(logits) == 1:
            return logits[0][None]
        return np.stack(logits, out=self._stacked.take((len(logits), self._backend.vocab_size)))

    def hidden_states(self, rows: Sequence[int]) -> Float32Array:
        """Hidden states of the last tokens of some of the sequences, float32 ``[rows, hidden]``.

        The first call computes the last tokens again; from then on every step brings them.

        Raises:
            CapabilityError: The model's hidden states cannot be had.
            StateError: A sequence has no tokens, or the batch is closed.
            BackendError: A step failed. The sequences are as they were.
        """
        if not self._backend.capabilities.hidden_states:
            raise CapabilityError("this model gives no hidden states: nothing in its graph looks like a head")
        self._keeps_hidden = True
        missing = [i for i in rows if self._rows[i].hidden is None]
        held = [(row, row.logits, row.was_set) for row in (self._rows[i] for i in missing)]
        try:
            for row, _, _ in held:
                row.logits = None
            self.forward(missing)
        finally:
            for row, logits, was_set in held:
                if logits is not None:
                    row.logits, row.was_set = logits, was_set
        found = [row.hidden for row in (self._rows[i] for i in rows) if row.hidden is not None]
        return np.stack(found)

    def close(self) -> None:
        """Release the cache. Calling it twice is harmless."""
        self._closed = True
        if self._cache is not None:
            self._cache.close()
            self._cache = None

    def _copy(self, source: _Row, free: list[_Row]) -> _Row:
        """A copy of a row in the slot of one of those that are ``free``: the one that needs the fewest copies."""
        if self._cache is None:
            return replace(source, slot=free.pop(0).slot, tokens=source.tokens.copy(), cached=0, long=False)
        wanted = self._cached_row(source)
        held = [self._cached_row(row) for row in free]
        at = max(range(len(free)), key=lambda i: (common_length(wanted, held[i]), -i))
        replaced = free.pop(at)
        row = replace(source, slot=replaced.slot, tokens=source.tokens.copy(), awaits_copies=False)
        can = self._backend.capabilities
        copies = differing_blocks(
            wanted, held[at], block_size=self._cache.geometry.block_size, rewind=can.rewind
        )
        if copies and not can.copy_blocks:
            row.cached = 0
        else:
            self._copies += copies
            row.awaits_copies = replaced.awaits_copies or bool(copies)
        return row

    def _cached_row(self, row: _Row) -> CachedRow:
        held = row.tokens.view()[: row.cached]
        if row.embedded is not None:
            held = row.embedded.marked(held)
        return CachedRow(held, row.long, self._blocks(row.slot))

    def _forget(self, row: _Row, cached: int) -> None:
        """Let the cache hold at most ``cached`` tokens of a row."""
        if row.cached <= cached:
            return
        if self._backend.capabilities.rewind:
            row.cached = cached
            return
        row.cached = 0
        snapshot = row.snapshot
        if snapshot is None or snapshot.length > cached or snapshot.long != row.long or self._copies:
            return  # what a copy is still to be made of must stay where it is
        assert self._cache is not None
        (block,) = self._blocks(row.slot)
        self._cache.import_block(block, snapshot.content, snapshot.length)
        row.cached = snapshot.length

    def _is_long(self, length: int) -> bool:
        return self._rope_switch is not None and length > self._rope_switch

    def _prepare(self, row: _Row) -> None:
        """Make sure that the last token is among those to run, and that all use the same rotary factors."""
        length = len(row.tokens)
        self._forget(row, length - 1)
        if row.long != self._is_long(length):
            row.long = self._is_long(length)
            row.cached = 0

    def _step(self, pending: Sequence[tuple[int, _Row]]) -> None:
        """Run one step: every row that lacks a single token, then chunks of the others while there is room."""
        if self._rope_switch is None and all(
            len(r.tokens) - r.cached == 1 and (r.embedded is None or not r.embedded.has(r.cached))
            for _, r in pending
        ):
            self._decode(pending)
            return
        # the graph picks its rotary factors once per step, so both kinds never meet in one
        together = [(i, r) for i, r in pending if r.long == pending[0][1].long]
        together.sort(key=lambda entry: len(entry[1].tokens) - entry[1].cached > 1)  # stable
        room = self._chunk_tokens
        parts: list[tuple[_Row, int]] = []
        inputs: list[SequenceInput] = []
        for _, row in together:
            left = len(row.tokens) - row.cached
            if left > 1 and room <= 0:
                break
            count = self._chunk(row, left, room)
            room -= count
            given = None if row.embedded is None else row.embedded.between(row.cached, row.cached + count)
            parts.append((row, count))
            inputs.append(
                SequenceInput(
                    token_ids=row.tokens.view()[row.cached : row.cached + count],
                    context_len=row.cached,
                    blocks=self._blocks(row.slot),
                    logits="last" if count == left else "none",
                    embeds=None if given is None else given[1],
                    embeds_at=None if given is None else given[0],
                    adapter=self._adapter,
                )
            )
        assert self._cache is not None
        step = pack_step(inputs, copies=self._copies, want_hidden_states=self._keeps_hidden)
        output = self._execute(step)
        for row, count in parts:
            row.cached += count
        self._take(output, [row for row, _ in parts if row.cached == len(row.tokens)])

    def _decode(self, pending: Sequence[tuple[int, _Row]]) -> None:
        """Run a step in which every row lacks one token.

        What `_step` would do, with less Python: around a model's run every line of it finds the processor's
        caches empty and costs several times as much as in a loop.
        """
        assert self._cache is not None
        # by slot, so that reordered rows make no new layouts
        rows = sorted((row for _, row in pending), key=lambda row: row.slot)
        slots = tuple([row.slot for row in rows])
        layout = self._layouts.get(slots)
        if layout is None:
            parts = [
                SequenceInput([0], context_len=0, blocks=self._blocks(slot), adapter=self._adapter)
                for slot in slots
            ]
            layout = self._layouts[slots] = pack_step(parts)
        positions = np.array([row.cached for row in rows], np.int64)
        step = Step(
            token_ids=np.array([row.tokens.last for row in rows], np.int64),
            positions=positions,
            cu_seqlens=layout.cu_seqlens,
            context_lens=positions.astype(np.int32),
            block_table=layout.block_table,
            logits_rows=layout.logits_rows,
            copies=tuple(self._copies),
            want_hidden_states=self._keeps_hidden,
            adapters=layout.adapters,
        )
        output = self._execute(step)
        logits = output.logits
        for at, row in enumerate(rows):
            row.cached += 1
            row.logits, row.was_set = logits[at], False
        if self._keeps_hidden:
            self._take(output, rows)

    def _take(self, output: StepOutput, rows: Sequence[_Row]) -> None:
        """Give rows that are up to date what a step computed of them."""
        for at, row in enumerate(rows):
            row.logits, row.was_set = output.logits[at], False
            row.hidden = None if output.hidden_states is None else output.hidden_states[at]

    def _execute(self, step: Step) -> StepOutput:
        assert self._cache is not None
        if not self._copies:
            return self._backend.execute(step, self._cache)
        waiting = [row for row in self._rows if row.awaits_copies]
        try:
            return self._backend.execute(step, self._cache)
        except BaseException:
            # whether the copies were done is not known, nor whether what they read is still there
            for row in waiting:
                row.cached = 0
            raise
        finally:
            self._copies.clear()
            for row in waiting:
                row.awaits_copies = False

    def _chunk(self, row: _Row, left: int, room: int) -> int:
        """How many of a row's ``left`` tokens the next step runs."""
        count = min(left, max(room, 1))
        if row.long:
            # a chunk that ends before the switch would be computed with the other factors
            assert self._rope_switch is not None
            count = max(count, min(left, self._rope_switch + 1 - row.cached))
        return count

    def _blocks(self, slot: int) -> Sequence[int]:
        assert self._cache is not None
        each = self._cache.geometry.num_blocks // len(self._rows)
        if not self._backend.capabilities.paged:
            return (slot,)
        return range(slot * each, (slot + 1) * each)

    def _reserve(self, num_tokens: int) -> None:
        """Have a cache that holds ``num_tokens`` tokens of every row.

        It has room for as many as there may be if the memory is there, else for what is, and is replaced when more is
        needed. What it holds is taken over if there is memory for both, and else computed again.
        """
        if num_tokens <= self._capacity:
            return
        wanted = self._first_tokens
        while wanted < num_tokens:
            wanted *= 2
        wanted = min(wanted, self._max_tokens)
        if self._cache is not None and self._enlarge(self._cache, wanted):
            self._capacity = wanted
            return
        if self._cache is not None:
            self._cache.close()
        self._cache, self._capacity = None, 0
        self._forget_places()
        for row in self._rows:
            row.cached = 0
        self._capacity = self._allocate(wanted, least=num_tokens)

    def _enlarge(self, old: KVCache, num_tokens: int) -> bool:
        """Replace the cache by a larger one with the same content; False if there is no memory for it."""
        try:
            new = self._backend.create_cache(num_seqs=len(self._rows), num_tokens=num_tokens)
        except BackendError as error:
            logger.info("no cache of %d tokens beside the present one (%s)", num_tokens, error)
            return False
        held = [self._blocks(row.slot) for row in self._rows]
        self._cache, paged = new, self._backend.capabilities.paged
        for row, blocks in zip(self._rows, held, strict=True):
            to, length = self._blocks(row.slot), row.cached
            if row.awaits_copies or not move_blocks(
                old, new, paged=paged, blocks=blocks, to=to, num_tokens=length
            ):
                row.cached = 0
        self._forget_places()
        old.close()
        return True

    def _forget_places(self) -> None:
        self._layouts.clear()
        self._copies.clear()
        for row in self._rows:
            row.awaits_copies = False

    def _allocate(self, capacity: int, *, least: int) -> int:
        """Make the cache; of how many tokens of every row."""
        while True:
            try:
                self._cache = self._backend.create_cache(num_seqs=len(self._rows), num_tokens=capacity)
            except BackendError as error:
                if capacity <= least:
                    raise
                logger.info("cache of %d tokens refused (%s), trying less", capacity, error)
                capacity = max(least, capacity // 2)
            else:
                return capacity
