"""Room on disk: how much there is, and an early refusal when it is too little."""

from __future__ import annotations

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
