"""A small store that forgets what was not used for longest."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class RecentlyUsed(Generic[Key, Value]):
    """Values by key, at most ``capacity`` of them."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: dict[Key, Value] = {}  # the last one is the most recently used one

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of ``key``, made if there is none."""
        value = self._values.pop(key, None)
        if value is None:
            value = make()
            if len(self._values) >= self._capacity:
                del self._values[next(iter(self._values))]
        self._values[key] = value
        return value

    def find(self, key: Key) -> Value | None:
        """The value of ``key``, if there is one."""
        value = self._values.pop(key, None)
        if value is not None:
            self._values[key] = value
        return value

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()
