"""A cache of contiguous slots: one array per cached tensor, bound as past and present at once."""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from onnxgen.backends.base import FULL, BlockCopy, CacheGeometry, Step
from onnxgen.backends.block_content import check_block, check_written, join_parts, split_parts
from onnxgen.backends.ort.ports import StatePort
from onnxgen.backends.ort.recently_used import RecentlyUsed
from onnxgen.backends.ort.session import OrtSession, to_ort_value
from onnxgen.backends.ort.written import NOTHING, Written, after_copies, check_continues, is_long
from onnxgen.errors import BackendError, StateError

_MIB = 1 << 20
_MAX_CALLS = 32


def check_memory(num_bytes: int, *, limit_mb: int | None, what: str) -> None:
    """Refuse a cache that is larger than the configuration allows.

    Raises:
        BackendError: With both sizes.
    """
    if limit_mb is not None and num_bytes > limit_mb * _MIB:
        raise BackendError(
            f"a cache for {what} takes {num_bytes / _MIB:.1f} MiB, the limit is {limit_mb} MiB "
            "(memory_limit_mb); ask for fewer sequences, a shorter context or raise the limit"
        )


class SlotCache:
    """``[slots, kv_heads, capacity, head_dim]`` for every cached tensor.

    Attributes:
        owner: The plan that made it.
        calls: Bound calls by their form, the most recent ones.
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
        self._closed = False
        self.owner = owner
        shapes = [(num_slots, p.dims[0], p.positions or capacity, p.dims[1]) for p in ports]
        dtypes = [_numpy_type(p.dtype) for p in ports]
        total = sum(int(np.prod(s, dtype=np.int64)) * d.itemsize for s, d in zip(shapes, dtypes, strict=True))
        self._geometry = CacheGeometry(num_slots, capacity, block_bytes=total // num_slots)
        what = f"{num_slots} sequences of {capacity} tokens"
        check_memory(total, limit_mb=limit_mb, what=what)
        try:
            self._arrays = [_zeros(s, d) for s, d in zip(shapes, dtypes, strict=True)]
        except (MemoryError, OSError) as cause:
            raise BackendError(
                f"a cache for {what} takes {total / _MIB:.1f} MiB, more than there is"
            ) from cause
        self._written = [NOTHING] * num_slots
        self.calls: RecentlyUsed[Any, Any] = RecentlyUsed(_MAX_CALLS)

    @property
    def geometry(self) -> CacheGeometry:
        """Number and size of the slots."""
        return self._geometry

    @property
    def num_bytes(self) -> int:
        """Memory held by the pool, in bytes."""
        return sum(a.nbytes for a in self._arrays)

    @property
    def written(self) -> list[Written]:
        """What each slot holds.

        Raises:
            StateError: The cache was closed.
        """
        self._check_open()
        return self._written

    @property
    def arrays(self) -> list[npt.NDArray[np.generic]]:
        """One array per port.

        Raises:
            StateError: The cache was closed.
        """
        self._check_open()
        return self._arrays

    def _check_open(self) -> None:
        if self._closed:
            raise StateError("this cache was closed; make a new one")

    def copy(self, copies: Sequence[BlockCopy]) -> None:
        """Copy the beginnings of slots to other slots, in order."""
        self._written = after_copies(self.written, copies)
        for c in copies:
            for array in self._arrays if c.source != c.target else ():
                array[c.target, :, : c.num_tokens] = array[c.source, :, : c.num_tokens]

    def export_block(self, block: int, num_tokens: int, *, group: int = FULL) -> npt.NDArray[np.uint8]:
        """The first positions of a slot as bytes. See `KVCache`."""
        self._check_open()
        check_block(self._geometry, block, num_tokens, group=group)
        held = self._written[block]
        check_written(block, num_tokens, written=held.length)
        return join_parts(self._beginnings(block, num_tokens), num_tokens=num_tokens, long=held.long)

    def import_block(
        self, block: int, content: npt.NDArray[np.uint8], num_tokens: int, *, group: int = FULL
    ) -> None:
        """Fill the first positions of a slot. See `KVCache`."""
        self._check_open()
        check_block(self._geometry, block, num_tokens, group=group)
        long = split_parts(content, self._beginnings(block, num_tokens), num_tokens=num_tokens)
        self._written[block] = Written(num_tokens, long)

    def _beginnings(self, slot: int, num_tokens: int) -> list[npt.NDArray[np.generic]]:
        return [array[slot, :, :num_tokens] for array in self.arrays]

    def bind(self, session: OrtSession, ports: Sequence[StatePort], first: int, end: int) -> ort.IOBinding:
        """A new binding with slots ``first`` to ``end`` as past and present."""
        binding = session.new_binding()
        for port, array in zip(ports, self.arrays, strict=True):
            value = to_ort_value(array[first:end], port.onnx_type)
            binding.bind_ortvalue_input(port.past, value)
            binding.bind_ortvalue_output(port.present, value)
        return binding

    @contextmanager
    def writing(self, written: Mapping[int, Written], past_lens: Sequence[int]) -> Generator[None]:
        """Keep account of what is written, by slot: all of it when the block succeeds, none when it fails."""
        for slot, past_len in zip(written, past_lens, strict=True):
            self._written[slot] = Written(past_len, self._written[slot].long)
        yield
        for slot, after in written.items():
            self._written[slot] = after

    def close(self) -> None:
        """Release the memory. Calling it twice is harmless."""
        self._closed = True
        self.calls.clear()
        self._arrays = []


class SlotStep:
    """A step on a cache of slots, checked, with its copies done.

    Attributes:
        slots: The slot of each sequence.
        past_lens: Tokens before the step, of each sequence.
        query_lens: New tokens of each sequence.

    Raises:
        StepError: A sequence does not go on from what its slot holds. Nothing was changed.
        StateError: The cache was closed.
    """

    def __init__(self, step: Step, cache: SlotCache, *, switch_length: int | None) -> None:
        self.slots: list[int] = step.block_table[:, 0].tolist()
        self.past_lens: list[int] = step.context_lens.tolist()
        ends: list[int] = step.cu_seqlens.tolist()
        self.query_lens = [end - start for start, end in itertools.pairwise(ends)]
        self._cache, self._switch_length = cache, switch_length
        written = after_copies(cache.written, step.copies) if step.copies else cache.written
        check_continues(step, [written[slot] for slot in self.slots], switch_length=switch_length)
        if step.copies:
            cache.copy(step.copies)

    def writing(self) -> AbstractContextManager[None]:
        """Around the calls of the step: accounts for what they write."""
        after: dict[int, Written] = {}
        for slot, past_len, query_len in zip(self.slots, self.past_lens, self.query_lens, strict=True):
            total = past_len + query_len
            after[slot] = Written(total, is_long(total, self._switch_length))
        return self._cache.writing(after, self.past_lens)


def _zeros(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> npt.NDArray[np.generic]:
    """Zeros that take memory only where they are written, page by page.

    numpy asks for huge pages, which a slot touches all of with its first token. Zeros and not just any
    memory, because idle slots must hold no NaN.
    """
    size = int(np.prod(shape, dtype=np.int64))
    pages = mmap.mmap(-1, size * dtype.itemsize)
    return np.frombuffer(pages, np.uint8).view(dtype).reshape(shape)


def _numpy_type(name: str) -> np.dtype[np.generic]:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)
