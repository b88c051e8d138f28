"""Memory of prepared runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from onnxgen.graph.planner.layout import ArrayType
from onnxgen.graph.planner.plan import Plan
from onnxgen.graph.session.node_span import node_spans
from onnxgen.graph.session.run_values import fresh

Function = Callable[..., tuple[Any, ...]]
Allocate = Callable[[int], np.ndarray]


class NotViewsError(Exception):
    """Outputs that were taken for views of a buffer and are copies; ``values`` has their numbers."""

    def __init__(self, values: frozenset[int]) -> None:
        super().__init__(f"not views: {sorted(values)}")
        self.values = values


def make_frame(plan: Plan, types: Mapping[int, ArrayType], allocate: Allocate) -> Function:
    """The function of a plan over an arena of its own, for values of these types.

    One run at a time may use it.

    Raises:
        NotViewsError: when outputs that the plan makes once, as views of buffers, are none.
    """
    assert plan.layout is not None
    offsets, num_bytes = plan.layout.offsets(types)
    arena = allocate(num_bytes)
    buffers = [
        np.ndarray(shape, dtype, buffer=arena, offset=offsets[buffer.slot])
        for buffer in plan.layout.buffers
        for shape, dtype in (types[buffer.value],)
    ]
    copies: set[int] = set()

    def view(values: tuple[int, ...], made: Any, source: np.ndarray) -> Any:
        for value, array in zip(values, made if len(values) > 1 else (made,), strict=True):
            if array.size and not np.may_share_memory(array, source):
                copies.add(value)
        return made

    function = plan.bind(fresh=fresh, span=node_spans(plan), view=view, buffers=buffers)
    if copies:
        raise NotViewsError(frozenset(copies))
    return function


class FramePool:
    """Frames of one plan and one set of input types: as many as there were runs at the same time."""

    def __init__(self, make: Callable[[], Function], first: Function) -> None:
        self._make = make
        self._free = [first]
        self.last_used = 0

    def take(self) -> Function:
        """A frame that nobody uses."""
        try:
            return self._free.pop()
        except IndexError:
            return self._make()

    def give_back(self, frame: Function) -> None:
        """Let others use the frame."""
        self._free.append(frame)
