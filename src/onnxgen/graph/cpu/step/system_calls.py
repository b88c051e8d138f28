"""Functions of the operating system that compiled code calls by their addresses: time, semaphores, and making room for others.

All are called with three integers: a handle, an amount, and 0; C functions do not see arguments beyond their own.

              yield           clock                     wait                      signal
    POSIX     sched_yield     clock_gettime             sem_wait                  sem_post
    macOS     sched_yield     clock_gettime             dispatch_semaphore_wait   dispatch_semaphore_signal
    Windows   SwitchToThread  QueryPerformanceCounter   WaitForSingleObject       ReleaseSemaphore
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from onnxgen.graph.cpu.compiled.control import System

_SEM_BYTES = 64
_ADDRESS = ctypes.c_void_p
_INTEGER = ctypes.c_ssize_t


@dataclass(frozen=True, slots=True)
class SystemCalls:
    """What the system offers.

    Attributes:
        addresses: Of the functions that compiled code calls.
        ticks_per_second: Of the clock.
        new_semaphore: Makes a semaphore of count 0; the handle lives as long as the process.
        signal: Raises its count.
    """

    addresses: Mapping[System, int]
    ticks_per_second: int
    new_semaphore: Callable[[], int]
    signal: Callable[[int], None]


@cache
def system_calls() -> SystemCalls:
    """The functions of this system."""
    if sys.platform == "win32":
        return _windows()
    return _macos() if sys.platform == "darwin" else _posix()


def _posix() -> SystemCalls:
    libc: Any = ctypes.CDLL(None)
    libc.sem_init.argtypes = (_ADDRESS, ctypes.c_int, ctypes.c_uint)

    def new_semaphore() -> int:
        memory = ctypes.create_string_buffer(_SEM_BYTES)
        _kept().append(memory)
        assert libc.sem_init(memory, 0, 0) == 0
        return ctypes.addressof(memory)

    return _calls(
        (libc.sched_yield, libc.clock_gettime, libc.sem_wait, libc.sem_post), 1_000_000_000, new_semaphore
    )


def _macos() -> SystemCalls:
    libc: Any = ctypes.CDLL(None)
    libc.dispatch_semaphore_create.restype = _ADDRESS
    libc.dispatch_semaphore_create.argtypes = (_INTEGER,)
    functions = (
        *(libc.sched_yield, libc.clock_gettime),
        *(libc.dispatch_semaphore_wait, libc.dispatch_semaphore_signal),
    )
    return _calls(functions, 1_000_000_000, lambda: int(libc.dispatch_semaphore_create(0)))


def _windows() -> SystemCalls:
    kernel32: Any = ctypes.WinDLL("kernel32")  # pyright: ignore
    kernel32.CreateSemaphoreW.restype = _ADDRESS
    kernel32.CreateSemaphoreW.argtypes = (_ADDRESS, ctypes.c_long, ctypes.c_long, _ADDRESS)
    frequency = ctypes.c_int64()
    kernel32.QueryPerformanceFrequency(ctypes.byref(frequency))
    functions = (
        *(kernel32.SwitchToThread, kernel32.QueryPerformanceCounter),
        *(kernel32.WaitForSingleObject, kernel32.ReleaseSemaphore),
    )
    return _calls(functions, frequency.value, lambda: int(kernel32.CreateSemaphoreW(None, 0, 1 << 30, None)))


def _calls(functions: tuple[Any, ...], ticks: int, new_semaphore: Callable[[], int]) -> SystemCalls:
    addresses = {
        name: ctypes.cast(function, _ADDRESS).value or 0
        for name, function in zip(System, functions, strict=True)
    }
    raise_count = ctypes.CFUNCTYPE(None, _ADDRESS, _INTEGER, _ADDRESS)(addresses[System.SIGNAL])
    return SystemCalls(addresses, ticks, new_semaphore, lambda handle: raise_count(handle, 1, None))


@cache
def _kept() -> list[Any]:
    """Memory of semaphores: a thread may wait on one until the process ends."""
    return []
