"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file beside ``path`` and let it take its place; on an error nothing is left behind.

    Raises:
        OSError: The folder does not exist, or cannot be written to.
    """
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    written = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        written.chmod(0o666 & ~_umask())  # mkstemp's files are private
        written.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            written.unlink()
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
