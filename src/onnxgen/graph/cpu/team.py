"""Several threads for one kernel.

Work is cut into parts that threads claim one by one, the caller's among them: it never waits for a thread that the
system has not found time for, which on a busy machine costs more than the work itself.

This is for loops that Numba calls with arrays (`compiled.function`), whose machine code takes each array apart into many arguments. Step
kernels take five integers and have threads of their own (`step.crew`), which are had within a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from onnxgen.foundations.cpuinfo import default_threads
from onnxgen.graph.ep.threads import most_threads

WORTH_SHARING_S = 100e-6
"""Shorter work than this ends before another thread has begun."""


@cache
def num_threads() -> int:
    """Threads of a kernel: physical cores, or fewer where ``NUMBA_NUM_THREADS`` says so."""
    from numba import config

    return max(1, min(default_threads(), int(config.NUMBA_NUM_THREADS)))  # pyright: ignore[reportAttributeAccessIssue]


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(num_threads() - 1, thread_name_prefix="onnxgen-kernel")


def share(function: Callable[..., Any], *arguments: Any, parts: int, seconds: float) -> None:
    """Call ``function(*arguments, parts, claims)`` from as many threads as the work is worth and the session allows.

    Returns when all is done.

    Args:
        function: A compiled function that takes parts with `compiled.primitives.claim` from ``claims``, an int64
            array of one element, until there are none left of ``parts``.
        *arguments: Its other arguments.
        parts: Number of parts.
        seconds: Roughly what one thread takes.
    """
    claims = np.zeros(1, np.int64)
    helping: list[Future[Any]] = []
    if seconds > WORTH_SHARING_S:
        for _ in range(min(parts, most_threads(num_threads())) - 1):
            try:
                helping.append(_helpers().submit(function, *arguments, parts, claims))
            except RuntimeError:  # the interpreter is shutting down
                break
    try:
        function(*arguments, parts, claims)
    finally:  # nobody writes into the arrays after this
        for helper in helping:
            if not helper.cancel():
                helper.result()
