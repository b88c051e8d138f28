"""Memory of prepared runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np

from onnxgen.graph.planner.layout import ArrayType
from onnxgen.graph.planner.plan import Plan
from onnxgen.graph.session.node_span import node_spans
from onnxgen.graph.session.run_values import fresh

Function = Callable[..., tuple[Any, ...]]
Allocate = Callable[[int], np.ndarray]

KEPT_BYTES = 2**30
"""How much memory the arenas of a session may hold between runs."""


class NotViewsError(Exception):
    """Outputs that were taken for views of a buffer and are copies; ``values`` has their numbers."""

    def __init__(self, values: frozenset[int]) -> None:
        super().__init__(f"not views: {sorted(values)}")
        self.values = values


class ArenaBudget:
    """Keeps the arenas of a session within a limit; those used longest ago go first.

    The arena that a run is about to use is never refused: alone it may be larger than the limit.

    Args:
        limit_bytes: The limit.
    """

    def __init__(self, limit_bytes: int = KEPT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.clock = count(1)
        self._pools = WeakSet[
            FramePool
        ]()  # weak: pools know their budget, and a session should end without a collector
        self._lock = Lock()

    def admit(self, pool: FramePool) -> None:
        """Count one more frame of a pool, and empty others until all fit."""
        with self._lock:
            pool.num_frames += 1
            self._pools.add(pool)
            total = sum(each.num_bytes for each in self._pools)
            for each in sorted(self._pools, key=lambda each: each.last_used):
                if total <= self.limit_bytes:
                    break
                if each is not pool:
                    total -= each.empty()

    def dismiss(self, pool: FramePool) -> None:
        """Count one frame of a pool less."""
        with self._lock:
            pool.num_frames -= 1


class HeapFrame:
    """The function of a plan whose values are all new memory: any number of runs may use it at the same time."""

    def __init__(self, function: Function, clock: Iterator[int]) -> None:
        self._function = function
        self._clock = clock
        self.last_used = next(clock)

    def take(self) -> Function:
        """The function."""
        self.last_used = next(self._clock)
        return self._function

    def give_back(self, frame: Function) -> None:
        """It was never away."""


class FramePool:
    """Frames of one plan and one set of input types: as many as there were runs at the same time.

    A frame is the function of the plan over an arena of its own. One run at a time may use it.

    Args:
        plan: The plan; it has a layout.
        types: Types of the values in the arena.
        allocate: Gives the memory of arenas.
        budget: Limits how many frames are kept.

    Raises:
        NotViewsError: when outputs that the plan makes once, as views of buffers, are none.
    """

    def __init__(
        self, plan: Plan, types: Mapping[int, ArrayType], allocate: Allocate, budget: ArenaBudget
    ) -> None:
        assert plan.layout is not None
        self._plan = plan
        self._types = types
        self._allocate = allocate
        self._budget = budget
        self._clock = budget.clock
        self._offsets, self._arena_bytes = plan.layout.offsets(types)
        self._most_free = max(1, budget.limit_bytes // max(1, self._arena_bytes))
        self.num_frames = 0
        self.last_used = next(self._clock)
        self._free = [self._made()]

    @property
    def num_bytes(self) -> int:
        """Bytes of the arenas of all its frames."""
        return self.num_frames * self._arena_bytes

    def take(self) -> Function:
        """A frame that nobody uses."""
        self.last_used = next(self._clock)
        try:
            return self._free.pop()
        except IndexError:
            return self._made()

    def give_back(self, frame: Function) -> None:
        """Let others use the frame."""
        if len(self._free) < self._most_free:
            self._free.append(frame)
        else:
            self._budget.dismiss(self)

    def empty(self) -> int:
        """Forget the frames that nobody uses, and say how many bytes they had; for the budget alone."""
        before = self.num_frames
        with suppress(IndexError):  # others take frames meanwhile
            while True:
                self._free.pop()
                self.num_frames -= 1
        return (before - self.num_frames) * self._arena_bytes

    def _made(self) -> Function:
        assert self._plan.layout is not None
        arena = self._allocate(self._arena_bytes)
        buffers = [
            np.ndarray(shape, dtype, buffer=arena, offset=self._offsets[buffer.slot])
            for buffer in self._plan.layout.buffers
            for shape, dtype in (self._types[buffer.value],)
        ]
        copies: set[int] = set()

        def view(values: tuple[int, ...], made: Any, source: np.ndarray) -> Any:
            for value, array in zip(values, made if len(values) > 1 else (made,), strict=True):
                if array.size and not np.may_share_memory(array, source):
                    copies.add(value)
            return made

        frame = self._plan.bind(fresh=fresh, span=node_spans(self._plan), view=view, buffers=buffers)
        if copies:
            raise NotViewsError(frozenset(copies))
        self._budget.admit(self)
        return frame
