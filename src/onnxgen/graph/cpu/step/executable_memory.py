"""Memory that is written first and executed afterwards, never both; it stays until the process ends."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from functools import cache
from typing import Any

_FUNCTIONS = ("memset", "memcpy", "memmove")


@cache
def _libc() -> Any:
    library: Any = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64)
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library


def map_code(num_bytes: int, content_at: Callable[[int], bytes]) -> int:
    """Map machine code; returns where.

    Args:
        num_bytes: Its size.
        content_at: The bytes, once the address is known.

    Raises:
        OSError: The system gives no memory, or lets nobody execute what was written.
    """
    libc = _libc()
    writable = mmap.PROT_READ | mmap.PROT_WRITE
    address = libc.mmap(None, num_bytes, writable, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise _error()
    try:
        content = content_at(address)
        assert len(content) == num_bytes
        ctypes.memmove(address, content, num_bytes)
        if libc.mprotect(address, num_bytes, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
            raise _error()
    except BaseException:
        libc.munmap(address, num_bytes)
        raise
    return address


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"no executable memory: {os.strerror(number)}")


def library_function(name: str) -> int | None:
    """Address of one of the functions that compilers call for copying and filling memory; None for others."""
    if name not in _FUNCTIONS:
        return None
    return ctypes.cast(getattr(_libc(), name), ctypes.c_void_p).value
