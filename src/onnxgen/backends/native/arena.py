"""Memory for the buffers of a pass, and where in it each view of a plan lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from onnxgen.backends.native.memory_plan import integer_layout, plan_memory, row_bytes
from onnxgen.backends.native.plan import Buffer, RowKind, StepPlan, View
from onnxgen.graph.cpu.aligned_memory import aligned


@dataclass(frozen=True, slots=True)
class Integers:
    """Addresses of a buffer of integers, their scales and their sums, and bytes from row to row."""

    values: int
    scales: int
    sums: int
    stride: int
    scale_stride: int


class Arena:
    """Memory for passes of up to so many tokens; what nobody touches costs nothing.

    Attributes:
        given: Buffers that lie where the caller says, by the result that they become.
    """

    def __init__(self, plan: StepPlan, *, most_tokens: int) -> None:
        memory = plan_memory(plan)
        self._buffers: Mapping[str, Buffer] = plan.buffers
        self._place_of = memory.place_of
        self._most = most_tokens
        self._memory = [aligned(place.row_bytes * most_tokens) for place in memory.places]
        self.given = memory.given

    @property
    def num_bytes(self) -> int:
        """Size of the memory, touched or not."""
        return sum(memory.size for memory in self._memory)

    def address(self, view: View) -> int:
        """Where the view's columns of the first row begin; for a buffer that the caller gives, the offset in it."""
        start = 0 if view.buffer in self.given else self._memory[self._place_of[view.buffer]].ctypes.data
        return start + 4 * view.offset

    def stride(self, view: View) -> int:
        """Bytes from row to row."""
        buffer = self._buffers[view.buffer]
        return 4 * buffer.width if view.buffer in self.given else row_bytes(buffer)

    def integers(self, view: View) -> Integers:
        """Where the integers of a buffer are."""
        buffer = self._buffers[view.buffer]
        stride, scale_stride = integer_layout(buffer)
        start = self._memory[self._place_of[view.buffer]].ctypes.data
        scales = start + self._most * stride
        return Integers(start, scales, scales + self._most * scale_stride, stride, scale_stride)

    def floats(self, view: View, rows: int) -> np.ndarray:
        """The first rows of a view, ``[rows, width]``, not copied."""
        memory = self._memory[self._place_of[view.buffer]].view(np.float32)
        table = memory[: rows * self.stride(view) // 4].reshape(rows, -1)
        return table[:, view.offset : view.offset + view.width]

    def rows(self, view: View) -> RowKind:
        """Which rows a view has."""
        return self._buffers[view.buffer].rows
