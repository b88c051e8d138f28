"""A cache of contiguous slots: one array per cached tensor, bound as past and present at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from onnxgen.backends.base import BlockCopy, CacheGeometry, Int64Array, Step
from onnxgen.backends.ort.ports import StatePort
from onnxgen.backends.ort.session import OrtSession, to_ort_value
from onnxgen.errors import BackendError, StateError, StepError

_MIB = 1 << 20
_MAX_BINDINGS = 32


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
        arrays: One array per port, in the order of the ports.
        filled: Positions written in each slot, int64 ``[slots]``; what lies beyond is stale.
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
        self._geometry = CacheGeometry(num_slots, capacity)
        self._closed = False
        self.owner = owner
        shapes = [(num_slots, p.dims[0], p.positions or capacity, p.dims[1]) for p in ports]
        dtypes = [_numpy_type(p.dtype) for p in ports]
        total = sum(int(np.prod(s, dtype=np.int64)) * d.itemsize for s, d in zip(shapes, dtypes, strict=True))
        what = f"{num_slots} sequences of {capacity} tokens"
        check_memory(total, limit_mb=limit_mb, what=what)
        try:
            # zeros and not empty: never written memory is not committed, and idle slots hold no NaN
            self._arrays = [np.zeros(s, d) for s, d in zip(shapes, dtypes, strict=True)]
        except MemoryError as cause:
            raise BackendError(
                f"a cache for {what} takes {total / _MIB:.1f} MiB, more than there is"
            ) from cause
        self.filled = np.zeros(num_slots, np.int64)
        self._bindings: dict[tuple[int, int, bool], ort.IOBinding] = {}

    @property
    def geometry(self) -> CacheGeometry:
        """Number and size of the slots."""
        return self._geometry

    @property
    def num_bytes(self) -> int:
        """Memory held by the pool, in bytes."""
        return sum(a.nbytes for a in self._arrays)

    @property
    def arrays(self) -> list[npt.NDArray[np.generic]]:
        """One array per port.

        Raises:
            StateError: The cache was closed.
        """
        if self._closed:
            raise StateError("this cache was closed; make a new one")
        return self._arrays

    def copy(self, copies: Sequence[BlockCopy]) -> None:
        """Copy the beginnings of slots to other slots, in order."""
        for c in copies:
            if c.source == c.target:
                continue
            for array in self._arrays:
                array[c.target, :, : c.num_tokens] = array[c.source, :, : c.num_tokens]
            self.filled[c.target] = min(c.num_tokens, int(self.filled[c.source]))

    def bound(
        self,
        session: OrtSession,
        ports: Sequence[StatePort],
        first: int,
        end: int,
        *,
        with_hidden_states: bool,
    ) -> ort.IOBinding:
        """A binding with slots ``first`` to ``end`` as past and present.

        Bindings are kept, so that a step rebinds its small inputs only; the caller rebinds all of those.
        """
        key = (first, end, with_hidden_states)
        binding = self._bindings.pop(key, None)
        if binding is None:
            binding = session.new_binding()
            for port, array in zip(ports, self.arrays, strict=True):
                value = to_ort_value(array[first:end], port.onnx_type)
                binding.bind_ortvalue_input(port.past, value)
                binding.bind_ortvalue_output(port.present, value)
            if len(self._bindings) >= _MAX_BINDINGS:
                del self._bindings[next(iter(self._bindings))]
        self._bindings[key] = binding  # the last one is the most recently used one
        return binding

    def close(self) -> None:
        """Release the memory. Calling it twice is harmless."""
        self._closed = True
        self._bindings.clear()
        self._arrays = []


def checked_slots(step: Step, cache: SlotCache) -> Int64Array:
    """The slot of each sequence, int64 ``[seqs]``.

    Raises:
        StepError: A sequence is said to be longer than what its slot will hold after the copies.
        StateError: The cache was closed.
    """
    slots = step.block_table[:, 0].astype(np.int64)
    assert cache.arrays is not None
    filled = cache.filled
    if step.copies:
        filled = filled.copy()
        for c in step.copies:
            filled[c.target] = (
                min(c.num_tokens, int(filled[c.source])) if c.source != c.target else filled[c.target]
            )
    short = filled[slots] < step.context_lens
    if short.any():
        i = int(np.argmax(short))
        raise StepError(
            f"sequence {i} has context_len {int(step.context_lens[i])}, but only {int(filled[slots[i]])} "
            f"positions of slot {int(slots[i])} were written"
        )
    return slots


def _numpy_type(name: str) -> np.dtype[np.generic]:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)
