"""How many threads the kernels of a run may use."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from onnxgen.foundations.blas_threads import blas_threads

_MOST = ContextVar[int | None]("onnxgen_kernel_threads", default=None)


def most_threads(usual: int) -> int:
    """How many threads a kernel may use that would use ``usual``; to be asked in the thread that called it, in each call."""
    most = _MOST.get()
    return usual if most is None else min(usual, most)


@contextmanager
def limited_threads(most: int) -> Generator[None]:
    """Kernels that this thread calls meanwhile use at most that many threads, and so do NumPy's matrix products anywhere."""
    blas, before = blas_threads(), _MOST.set(most)
    blas.hold(most)
    try:
        yield
    finally:
        blas.release(most)
        _MOST.reset(before)
