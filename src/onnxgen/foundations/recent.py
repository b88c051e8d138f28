"""A mapping that forgets."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Keeps the entries that were used last. Several threads may use one.

    Args:
        most: How many.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[Key, Value] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """The entry, which counts as used now; None where there is none any more."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key]

    def put(self, key: Key, value: Value) -> None:
        """Keep an entry; what was used longest ago makes room for it."""
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)

    def discard(self, key: Key) -> None:
        """Forget an entry, if it is there."""
        with self._lock:
            self._entries.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._entries.clear()
