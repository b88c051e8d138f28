"""`SingleUse`: turns use of one object by two threads at once into an error instead of a mixed-up state."""

from __future__ import annotations

import threading
from types import TracebackType

from onnxgen.errors import StateError


class SingleUse:
    """A context manager that only one thread may be in; the thread itself may enter again."""

    __slots__ = ("_lock", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        """Enter.

        Raises:
            StateError: Another thread is in.
        """
        if not self._lock.acquire(blocking=False):
            raise StateError(
                f"this {self._what} is in use by another thread; give every thread a {self._what} of its own "
                "(they may share the model)"
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave."""
        self._lock.release()
