"""The plan for graphs that take the past and give back a longer one, whatever their attention is made of.

Every sequence owns its cached tensors; a call stacks those of sequences with equally long pasts and equally
many new tokens. Caches are never written to, only replaced once the whole step has succeeded, so copies
share memory and a failed step leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import FULL, CacheGeometry, Capabilities, KVCache, Step, StepOutput
from onnxgen.backends.block_content import check_block, check_written, join_parts, split_parts
from onnxgen.backends.ort.embeddings import given_embeddings
from onnxgen.backends.ort.given_rows import rows_of
from onnxgen.backends.ort.graph_edit.names import HEAD_ROWS, LOGITS_ROWS, Rows
from onnxgen.backends.ort.plan import LoadedDecoder
from onnxgen.backends.ort.ports import StateKind, StatePort
from onnxgen.backends.ort.rectangles import Rectangle, cut_into_rectangles, group_by
from onnxgen.backends.ort.results import StepResults
from onnxgen.backends.ort.slots import check_memory
from onnxgen.backends.ort.written import NOTHING, Written, after_copies, check_continues, is_long
from onnxgen.errors import StateError

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Sequence:
    """What one slot holds, in one array per port, which may have stale positions at its end."""

    written: Written
    arrays: tuple[Array, ...]


_EMPTY = _Sequence(NOTHING, ())


class DenseCache:
    """Slots that hold sequences of any length up to the capacity.

    Attributes:
        owner: The plan that made it.
    """

    def __init__(
        self,
        ports: Sequence[StatePort],
        *,
        num_slots: int,
        capacity: int,
        limit_mb: int | None,
        owner: object,
    ) -> None:
        self._ports = ports
        self._token_bytes = sum(_nbytes(p) for p in ports if p.kind is not StateKind.FIXED)
        self._fixed_bytes = sum(_nbytes(p) for p in ports if p.kind is StateKind.FIXED)
        slot_bytes = capacity * self._token_bytes + self._fixed_bytes
        check_memory(
            num_slots * slot_bytes, limit_mb=limit_mb, what=f"{num_slots} sequences of {capacity} tokens"
        )
        self._geometry = geometry = CacheGeometry(num_slots, capacity, block_bytes=slot_bytes)
        self._sequences: list[_Sequence] | None = [_EMPTY] * geometry.num_blocks
        self.owner = owner

    @property
    def geometry(self) -> CacheGeometry:
        """Number and size of the slots."""
        return self._geometry

    @property
    def num_bytes(self) -> int:
        """Memory held by the pool, in bytes; it grows with the sequences."""
        held = [s for s in self._sequences or () if s.arrays]
        return sum(s.written.length * self._token_bytes + self._fixed_bytes for s in held)

    @property
    def sequences(self) -> list[_Sequence]:
        """What each slot holds.

        Raises:
            StateError: The cache was closed.
        """
        if self._sequences is None:
            raise StateError("this cache was closed; make a new one")
        return self._sequences

    def export_block(self, block: int, num_tokens: int, *, group: int = FULL) -> npt.NDArray[np.uint8]:
        """The first positions of a slot, and what else it holds, as bytes. See `KVCache`."""
        sequences = self.sequences
        check_block(self._geometry, block, num_tokens, group=group)
        held = sequences[block]
        check_written(block, num_tokens, written=held.written.length, whole=self._fixed_bytes > 0)
        beginnings = [
            array if port.kind is StateKind.FIXED else array[..., :num_tokens, :]
            for port, array in zip(self._ports, held.arrays, strict=True)
        ]
        return join_parts(beginnings, num_tokens=num_tokens, long=held.written.long)

    def import_block(
        self, block: int, content: npt.NDArray[np.uint8], num_tokens: int, *, group: int = FULL
    ) -> None:
        """Fill a slot. See `KVCache`."""
        sequences = self.sequences
        check_block(self._geometry, block, num_tokens, group=group)
        arrays = tuple(np.empty(_shape(p, 1, num_tokens), np.dtype(p.dtype)) for p in self._ports)
        long = split_parts(content, arrays, num_tokens=num_tokens)
        sequences[block] = _Sequence(Written(num_tokens, long), arrays)

    def commit(self, sequences: list[_Sequence]) -> None:
        """Replace what the slots hold."""
        self._sequences = sequences

    def close(self) -> None:
        """Release the memory. Calling it twice is harmless."""
        self._sequences = None


class DensePlan:
    """Steps as calls with a growing past. The cap on cache memory is taken as if all slots were full.

    Args:
        loaded: A session of a graph prepared for this plan.
    """

    def __init__(self, loaded: LoadedDecoder) -> None:
        prepared = loaded.prepared
        self._session = loaded.session
        self._ports = prepared.ports
        self._rows, self._head_rows = prepared.rows, prepared.head_rows
        self._embedding_size = prepared.embedding_size
        self._one_by_one = prepared.one_by_one
        self._vocab_size = loaded.vocab_size
        self._switch_length = loaded.switch_length
        self._memory_limit_mb = loaded.memory_limit_mb
        recurrent = any(s.kind is StateKind.FIXED for s in prepared.ports.states)
        self._capabilities = loaded.capabilities(ragged=False, rewindable=not recurrent)

    @property
    def capabilities(self) -> Capabilities:
        """What callers may rely on."""
        return self._capabilities

    def create_cache(self, *, num_seqs: int, num_tokens: int) -> DenseCache:
        """Make ``num_seqs`` empty slots of up to ``num_tokens`` positions."""
        return DenseCache(
            self._ports.states,
            num_slots=num_seqs,
            capacity=num_tokens,
            limit_mb=self._memory_limit_mb,
            owner=self,
        )

    def repeat(self, step: Step, cache: KVCache) -> StepOutput | None:
        """No step is known beforehand here."""
        del step, cache
        return None

    def execute(self, step: Step, cache: KVCache) -> StepOutput:
        """Run a checked step.

        Raises:
            StepError: A sequence's length does not fit what its slot holds. Nothing was changed.
            BackendError: A call failed. Nothing was changed.
        """
        assert isinstance(cache, DenseCache)
        held = list(cache.sequences)
        can_rewind = self._capabilities.rewind
        copied = after_copies([s.written for s in held], step.copies, can_rewind=can_rewind)
        for c in step.copies:
            held[c.target] = held[c.source]
        for sequence, written in enumerate(copied):
            held[sequence] = replace(held[sequence], written=written)
        slots: list[int] = step.block_table[:, 0].tolist()
        check_continues(
            step,
            [held[slot].written for slot in slots],
            switch_length=self._switch_length,
            can_rewind=can_rewind,
        )
        results = StepResults(step, self._vocab_size)
        keys = list(zip(step.context_lens.tolist(), step.query_lens.tolist(), strict=True))
        groups = [[i] for i in range(len(keys))] if self._one_by_one else group_by(keys)
        for call in cut_into_rectangles(step, groups, last_row_only=self._rows is Rows.LAST):
            at = [slots[i] for i in call.sequences.tolist()]
            grown = self._run(step, call, [held[slot] for slot in at], results)
            for slot, sequence in zip(at, grown, strict=True):
                held[slot] = sequence
        cache.commit(held)
        return StepOutput(results.logits, results.hidden_states)

    def _run(
        self, step: Step, call: Rectangle, held: Sequence[_Sequence], results: StepResults
    ) -> list[_Sequence]:
        """Run one call; returns what its slots hold afterwards."""
        ports = self._ports
        past_len = int(call.past_lens[0])
        inputs: dict[str, Array] = {
            ports.input_ids.name: call.token_ids.astype(ports.input_ids.dtype, copy=False)
        }
        if ports.position_ids is not None:
            inputs[ports.position_ids.name] = call.positions.astype(ports.position_ids.dtype)
        if ports.attention_mask is not None:
            inputs[ports.attention_mask.name] = call.attention_mask().astype(ports.attention_mask.dtype)
        if self._rows is Rows.WANTED:
            inputs[LOGITS_ROWS] = np.ascontiguousarray(call.wanted.rows)[None]
        if self._head_rows:
            inputs[HEAD_ROWS] = call.wanted.head_rows(want_logits=results.want_logits)
        if self._embedding_size is not None:
            inputs |= given_embeddings(step, self._embedding_size, partial(call.place, step)).inputs()
        inputs |= rows_of(ports.rows, step, call.tokens)
        for i, port in enumerate(ports.states):
            inputs[port.past] = _past(port, [s.arrays[i] for s in held if past_len], past_len, len(held))
        names = [s.present for s in ports.states] + [ports.logits]
        if results.want_hidden_states:
            assert ports.hidden_states is not None
            names.append(ports.hidden_states)
        outputs = self._session.run_arrays(names, inputs)
        results.fill(outputs[len(ports.states) :], computed=self._rows, wanted=call.wanted)
        total = past_len + call.token_ids.shape[1]
        written = Written(total, is_long(total, self._switch_length))
        return [
            _Sequence(written, tuple(_own(port, outputs[i], b) for i, port in enumerate(ports.states)))
            for b in range(len(held))
        ]


def _past(port: StatePort, held: Sequence[Array], past_len: int, batch: int) -> Array:
    """The past of a call: what its sequences hold up to ``past_len``, stacked; empty at the beginning."""
    if past_len == 0:
        return np.zeros(_shape(port, batch, 0), np.dtype(port.dtype))
    if port.kind is not StateKind.FIXED:
        held = [a if a.shape[-2] == past_len else a[..., :past_len, :] for a in held]
    if len(held) == 1:
        return np.ascontiguousarray(held[0])
    return np.concatenate(held, axis=1 if port.kind is StateKind.COMBINED else 0)


def _shape(port: StatePort, batch: int, num_tokens: int) -> tuple[int, ...]:
    """Of what some sequences of equally many tokens hold."""
    if port.kind is StateKind.KEY_VALUE:
        return batch, port.dims[0], num_tokens, port.dims[1]
    if port.kind is StateKind.COMBINED:
        return port.dims[0], batch, port.dims[1], num_tokens, port.dims[2]
    return batch, *port.dims


def _own(port: StatePort, present: Array, batch: int) -> Array:
    """One sequence's part of a present, with a batch axis of 1."""
    return present[:, batch : batch + 1] if port.kind is StateKind.COMBINED else present[batch : batch + 1]


def _nbytes(port: StatePort) -> int:
    return int(np.prod(port.dims)) * np.dtype(port.dtype).itemsize
