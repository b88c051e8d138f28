"""`EngineEventBuffer`: room for the events of an `Engine`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnxgen.errors import OptionError
from onnxgen.facade.engine_request import EngineEvent


class EngineEventBuffer:
    """Room for events, filled by `Engine.run`.

    Args:
        capacity: How many at most.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise OptionError(f"an event buffer holds at least 1 event, got a capacity of {capacity}")
        self.capacity = capacity
        self._events: Sequence[EngineEvent] = ()

    def __len__(self) -> int:
        return len(self._events)

    def __getitem__(self, index: int) -> EngineEvent:
        return self._events[index]

    def __iter__(self) -> Iterator[EngineEvent]:
        return iter(self._events)

    def fill(self, events: Sequence[EngineEvent]) -> None:
        """Hold these events instead of those before."""
        assert len(events) <= self.capacity
        self._events = events
