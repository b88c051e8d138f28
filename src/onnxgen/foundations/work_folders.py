"""Hidden folders beside a target, in which a new version of it is made.

``.TARGET.xxxxxxxx.partial`` is work under way, ``.TARGET.xxxxxxxx.old`` keeps the old version in ``old`` while
the new one takes its place. Each is locked by the process that works in it, so that what a killed process left
can be told from what another is doing, where the file system has locks.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

PARTIAL = ".partial"
ASIDE = ".old"
OLD = "old"
_NO_LOCK = -1


@contextlib.contextmanager
def work_folder(target: Path, suffix: str) -> Generator[Path]:
    """Yield a new folder beside ``target`` that is this process's own; it is removed if it is still there.

    An old version that could not return to its place stays where it is.
    """
    folder, lock = _make(target, suffix)
    try:
        yield folder
    finally:
        if suffix != ASIDE or target.exists():  # never the only copy there is
            shutil.rmtree(folder, ignore_errors=True)
        _release(lock)


def remove_leftovers(target: Path) -> None:
    """Remove what processes that were killed left beside ``target``; an old version returns to its place."""
    name = re.compile(rf"\.{re.escape(target.name)}\.\w{{8}}({re.escape(PARTIAL)}|{re.escape(ASIDE)})")
    with contextlib.suppress(OSError):
        for folder in [path for path in target.parent.iterdir() if name.fullmatch(path.name)]:
            lock = _try_lock(folder)
            if lock is None:
                continue
            if (folder / OLD).exists() and not target.exists():
                (folder / OLD).replace(target)
            shutil.rmtree(folder, ignore_errors=True)
            _release(lock)


def _make(target: Path, suffix: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=suffix, dir=target.parent))
        lock = _try_lock(folder)
        if folder.exists():  # else another process took it for a leftover before it was locked
            return folder, _NO_LOCK if lock is None else lock
        _release(_NO_LOCK if lock is None else lock)


if sys.platform == "win32":

    def _try_lock(folder: Path) -> int | None:
        del folder  # folders cannot be locked there, so nothing is ever taken for a leftover
        return None

else:
    import fcntl

    def _try_lock(folder: Path) -> int | None:
        """Lock a folder; None if another process has it, or the file system has no locks."""
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor


def _release(lock: int) -> None:
    if lock != _NO_LOCK:
        os.close(lock)
