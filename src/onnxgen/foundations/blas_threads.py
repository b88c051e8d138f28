"""The threads of the libraries that NumPy multiplies matrices with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from threading import Lock
from typing import Protocol


class BlasLibrary(Protocol):
    """A loaded library, as threadpoolctl has it."""

    @property
    def num_threads(self) -> int | None:
        """How many threads it uses now; None where it does not say."""
        ...

    def set_num_threads(self, num_threads: int) -> None:
        """Let it use as many from now on."""
        ...


class BlasThreads:
    """A limit that several callers may hold at a time.

    These libraries have one number of threads for the whole process, so the least limit counts for everybody. When nobody
    holds one, the numbers are again what they were.
    """

    def __init__(self, libraries: Sequence[BlasLibrary]) -> None:
        self._libraries = libraries
        self._usual: list[int] = []
        self._limits: list[int] = []
        self._lock = Lock()

    def hold(self, most: int) -> None:
        """Allow at most that many threads, until it is released."""
        with self._lock:
            if not self._limits:
                self._usual = [library.num_threads or 1 for library in self._libraries]
            self._limits.append(most)
            self._set(min(self._limits))

    def release(self, most: int) -> None:
        """End a limit that is held."""
        with self._lock:
            self._limits.remove(most)
            self._set(min(self._limits, default=None))

    def _set(self, most: int | None) -> None:
        for library, usual in zip(self._libraries, self._usual, strict=True):
            library.set_num_threads(usual if most is None else min(usual, most))


@cache
def blas_threads() -> BlasThreads:
    """The libraries that are loaded at the first call. Apple's Accelerate cannot be limited and is not among them."""
    from threadpoolctl import ThreadpoolController

    return BlasThreads(ThreadpoolController().select(user_api="blas").lib_controllers)
