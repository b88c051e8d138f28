"""JSON values as Python has them: copies, and what they take. Long conversations are many small ones."""

from __future__ import annotations

import sys
from typing import Any, cast


def copied(value: Any) -> Any:
    """A copy that shares no list and no object with the value."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [copied(item) for item in cast("list[Any]", value)]
    return value


def memory_of(value: Any) -> int:
    """Bytes of memory that a value takes; keys, which objects share, are not counted."""
    own = sys.getsizeof(value)
    if isinstance(value, dict):
        return own + sum(map(memory_of, cast("dict[str, Any]", value).values()))
    if isinstance(value, list | tuple):
        return own + sum(map(memory_of, cast("list[Any]", value)))
    return own
