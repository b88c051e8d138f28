"""Files of external data as they were when they were checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """A file of external data.

    Attributes:
        path: Its name inside the model folder, which may be a link.
        target: The real file.
        size: In bytes.
    """

    path: Path
    target: Path
    size: int


def describe(path: Path) -> ExternalFile:
    """Take down what a file is now."""
    target = path.resolve()
    return ExternalFile(path, target, target.stat().st_size)


def is_unchanged(file: ExternalFile) -> bool:
    """Whether a file still is what it was: the same target of the same size, so that checks still hold."""
    try:
        return describe(file.path) == file
    except (OSError, RuntimeError):  # a loop of links is a RuntimeError before Python 3.13
        return False
