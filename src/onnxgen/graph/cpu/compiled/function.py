"""Compiling a loop: ahead of its first call, for given types, kept on disk where there is a place for it."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import numba
import numpy as np
from numba.core.caching import NullCache

from onnxgen.graph.cpu.compiled.disk_cache import StableCache

REASSOCIATED = frozenset({"reassoc", "contract", "nsz"})
"""Freedoms that let sums run in vector registers; NaN and infinities stay what they are."""

CONTRACTED = frozenset({"contract"})
"""Only multiply-adds."""

inline: Any = numba.njit(nogil=True, forceinline=True, error_model="numpy", fastmath=set(CONTRACTED))
"""For small functions that compiled loops call."""

_called: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
leaf: Any = numba.njit(nogil=True, error_model="numpy", fastmath=set(CONTRACTED), **_called)
"""For larger ones, each of which is compiled once, however often it is called."""


@inline
def address(array: Any) -> int:
    """Where the first element lies, signed: the sum of an unsigned and a signed integer would be a float64."""
    return np.intp(array.ctypes.data)  # pyright: ignore[reportReturnType]


@inline
def lives_until_here(memory: Any) -> None:
    """Keep an array that only its address was taken of: else it is freed right after that, while others work there.

    Args:
        memory: float32, at least one element; its first is written.
    """
    memory[0] = np.float32(0)


def given(dtype: Any, rank: int) -> Any:
    """A C-contiguous array that is only read."""
    return numba.types.Array(numba.from_dtype(np.dtype(dtype)), rank, "C", readonly=True)


def written(dtype: Any, rank: int) -> Any:
    """A C-contiguous array that is written."""
    return numba.types.Array(numba.from_dtype(np.dtype(dtype)), rank, "C")


def compiled(
    function: Callable[..., Any], types: Iterable[Any], *, fastmath: frozenset[str] = CONTRACTED
) -> Callable[..., Any]:
    """The function in machine code for arguments of these types, without the interpreter lock.

    The code is kept on disk, beside the source or in the user's cache folder; where neither can be written it is
    compiled anew in each process.
    """
    dispatcher: Any = numba.njit(nogil=True, error_model="numpy", fastmath=set(fastmath))(function)
    # Without a folder to write in, Numba raises RuntimeError; a full disk is an OSError.
    with contextlib.suppress(RuntimeError, OSError):
        dispatcher._cache = StableCache(function)
    signature = tuple(types)
    try:
        dispatcher.compile(signature)
    except OSError:
        dispatcher._cache = NullCache()
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher
