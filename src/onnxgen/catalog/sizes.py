"""Numbers of bytes as people read them."""

from __future__ import annotations


def format_bytes(count: float) -> str:
    """Write a number of bytes in decimal units, such as ``98.4 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
