"""Values as runs hand them on."""

from __future__ import annotations

from typing import Any

import numpy as np


def fresh(value: Any) -> Any:
    """A copy that shares no array with ``value``."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list):
        return [fresh(item) for item in value]
    if isinstance(value, dict):
        return {key: fresh(item) for key, item in value.items()}
    return value


def described(value: Any) -> str:
    """``float32[2, 3]``, ``list of 2``, ``none``."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list):
        return f"list of {len(value)}" + (f" ({described(value[0])}, ...)" if value else "")
    return "none" if value is None else type(value).__name__


def num_bytes(values: Any) -> int:
    """Bytes of all arrays among the values."""
    return sum(value.nbytes for value in values if isinstance(value, np.ndarray))
