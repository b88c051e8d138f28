"""One process at a time: an advisory lock on a file that ends with the process, however it ends."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO

_POLL_S = 0.1


@contextlib.contextmanager
def exclusive(
    path: Path, *, while_waiting: Callable[[], contextlib.AbstractContextManager[object]]
) -> Generator[bool]:
    """Hold the lock at ``path`` for the block; ``while_waiting`` is entered as long as another process has it.

    Yields whether the lock is held: False where the file system has no locks, and callers then must not
    rely on being alone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        yield _acquire(file, while_waiting)


def _acquire(file: IO[bytes], while_waiting: Callable[[], contextlib.AbstractContextManager[object]]) -> bool:
    with contextlib.ExitStack() as waiting:
        waited = False
        while True:
            try:
                _try_lock(file)
            except (BlockingIOError, PermissionError):
                if not waited:
                    waiting.enter_context(while_waiting())
                    waited = True
                time.sleep(_POLL_S)
            except OSError:
                return False
            else:
                return True


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
