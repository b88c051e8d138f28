"""Room on disk: how much is taken, how much there is, and an early refusal when it is too little."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from onnxgen.errors import BuildError, OnnxgenError


def format_bytes(count: float) -> str:
    """Write a number of bytes in decimal units, such as ``98.4 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def size_on_disk(path: Path) -> int:
    """Size of a file or of all files in a folder, in bytes; links count with what they point to.

    0 where there is nothing; files that come and go meanwhile count or not.
    """
    return sum(file_sizes(path)) if path.is_dir() else _file_size(path) or 0


def file_sizes(folder: Path) -> list[int]:
    """Sizes of all files in a folder and those below it, in bytes and no order."""
    found = (_file_size(Path(root) / name) for root, _, files in os.walk(folder) for name in files)
    return [size for size in found if size is not None]


def _file_size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def free_disk_bytes(path: Path) -> int:
    """Bytes that this user may still write where ``path`` is or would be."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return shutil.disk_usage(path).free


def require_disk_space(
    path: Path, num_bytes: int, what: str, *, error: type[OnnxgenError] = BuildError
) -> None:
    """Refuse to begin what would fill the disk.

    Args:
        path: The file or folder that will be written; it need not exist.
        num_bytes: How much will be written there.
        what: What needs the room, as it stands in the message: ``"the int4 model"``.
        error: Class of the error.

    Raises:
        OnnxgenError: (``error``) with the bytes needed and the bytes free.
    """
    free = free_disk_bytes(path)
    if free < num_bytes:
        raise error(
            f"{what} needs {format_bytes(num_bytes)} in {path}, {format_bytes(free)} are free there; "
            "free some space or choose another folder"
        )
