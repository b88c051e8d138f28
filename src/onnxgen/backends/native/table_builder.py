"""The rows of a step's table as they are added: addresses of views, weights that must stay, results the caller places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxgen.backends.native.arena import Arena
from onnxgen.backends.native.plan import Call, Elements, StepPlan, View
from onnxgen.backends.native.weights import Packed
from onnxgen.graph.cpu.step.kernel import StepKernel
from onnxgen.graph.cpu.step.table import Parts, StepTable


class TableBuilder:
    """A table under construction.

    Attributes:
        table: Kernel calls in order.
        arena: Memory of buffers.
    """

    def __init__(self, plan: StepPlan, weights: Mapping[str, Packed], *, most_tokens: int) -> None:
        self._plan, self._weights = plan, weights
        self.arena = Arena(plan, most_tokens=most_tokens)
        self.table = StepTable()
        self._given: dict[str, list[tuple[int, str, int]]] = {}

    def give(self, result: str, address: int) -> None:
        """Say where a result is to be written."""
        for row, argument, offset in self._given.get(result, ()):
            self.table.set(row, argument, address + offset)

    def add(self, kernel: StepKernel, call: Call, parts: Parts, **arguments: float | View) -> int:
        """Append a call; views become their addresses, those that the caller gives are noted."""
        views = {name: value for name, value in arguments.items() if isinstance(value, View)}
        plain: dict[str, Any] = {
            name: self.arena.address(value) if isinstance(value, View) else value
            for name, value in arguments.items()
        }
        row = self.table.add(kernel, call.nodes[-1] if call.nodes else "", parts=parts, **plain)
        for name, view in views.items():
            if view.buffer in self.arena.given:
                self._given.setdefault(self.arena.given[view.buffer], []).append(
                    (row, name, self.arena.address(view))
                )
        return row

    def floats_between(self, view: View) -> int:
        """Floats from row to row."""
        return self.arena.stride(view) // 4

    def vector(self, call: Call, role: str) -> int:
        """Address of a weight of floats; 0 where there is none."""
        if role not in call.weights:
            return 0
        array = self._weights[call.weights[role]]
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.float32
        self.table.keep(array)
        return int(array.ctypes.data)

    def weight(self, call: Call, role: str) -> Packed:
        """A weight as it was packed."""
        weight = self._weights[call.weights[role]]
        self.table.keep(weight)
        return weight

    def integer_arguments(self, call: Call, role: str = "q") -> tuple[dict[str, Any], dict[str, int]]:
        """How a kernel writes integers: what it is compiled for, and where they go."""
        if role not in call.writes:
            return {}, dict.fromkeys(("q", "q_stride", "scale", "group_stride", "total"), 0)
        view = call.writes[role]
        buffer, place = self._plan.buffers[view.buffer], self.arena.integers(view)
        wide = 2 if buffer.elements is Elements.INT16 else 1
        return {"quantized": buffer.elements.value, "group": buffer.group}, {
            "q": place.values,
            "q_stride": place.stride // wide,
            "scale": place.scales,
            "group_stride": place.scale_stride // 4,
            "total": place.sums,
        }
