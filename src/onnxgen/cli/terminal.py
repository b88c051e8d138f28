"""What the terminal can show: colour only where it is wanted, and text in columns."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import IO

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


def is_terminal(stream: IO[str]) -> bool:
    """Whether a person watches this stream on something that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, stream: IO[str]) -> str:
    """Colour text for a stream; unchanged unless it is a terminal and ``NO_COLOR`` is unset or empty."""
    if not is_terminal(stream) or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def note(text: str) -> None:
    """Say something to the person beside the command's output."""
    print(paint(text, "dim", sys.stderr), file=sys.stderr, flush=True)


def columns(rows: Sequence[Sequence[str]], *, indent: str = "") -> str:
    """Lay out rows of text in columns that are as wide as their longest cell."""
    if not rows:
        return ""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    lines = [
        indent + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)
