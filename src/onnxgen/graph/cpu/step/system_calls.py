"""Functions of the operating system that compiled code calls by their addresses."""

from __future__ import annotations

import ctypes
import sys
from typing import Any


def yield_address() -> int:
    """A function without arguments that offers the core to other threads."""
    return _address(_kernel32().SwitchToThread if sys.platform == "win32" else ctypes.CDLL(None).sched_yield)


def clock_address() -> int:
    """``clock_gettime``, or ``QueryPerformanceCounter``."""
    if sys.platform == "win32":
        return _address(_kernel32().QueryPerformanceCounter)
    return _address(ctypes.CDLL(None).clock_gettime)


def ticks_per_second() -> int:
    """Of the clock: nanoseconds, except on Windows."""
    if sys.platform == "win32":
        frequency = ctypes.c_int64()
        _kernel32().QueryPerformanceFrequency(ctypes.byref(frequency))
        return frequency.value
    return 1_000_000_000


def _kernel32() -> Any:
    return ctypes.WinDLL("kernel32")  # pyright: ignore


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address
