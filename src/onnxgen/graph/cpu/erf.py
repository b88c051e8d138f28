"""The error function: NumPy has none, so one compiled loop over the C library's."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def erf() -> Callable[..., Any]:
    """A ufunc of float32 and float64; compiled once per machine and kept on disk."""
    import numba

    @numba.vectorize(["float32(float32)", "float64(float64)"], cache=True, nopython=True)
    def erf_of(x: Any) -> Any:
        return math.erf(x)

    return erf_of
