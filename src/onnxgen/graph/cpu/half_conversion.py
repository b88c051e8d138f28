"""float16 from float32 and back: NumPy converts element by element what processors convert in vectors."""

from __future__ import annotations

from functools import cache

import numpy as np

from onnxgen.foundations.cpuinfo import detect_cpu
from onnxgen.graph.cpu.team import share

_FLOAT16, _FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)

_ELEMENTS_PER_S = 4e9
"""Of one thread, roughly: to tell what is worth sharing."""

_FEWEST = 1024
"""Elements from which on a compiled loop is worth its call."""


@cache
def _has_instructions() -> bool:
    cpu = detect_cpu()
    return "f16c" in cpu.features or cpu.architecture == "arm64"


def converted(x: np.ndarray, dtype: np.dtype, out: np.ndarray | None = None) -> np.ndarray:
    """The elements in another type, as ``astype`` has them; always a new array, or ``out``.

    Args:
        x: Of any type and strides.
        dtype: The wanted type.
        out: Where the result goes, of that type; any strides.
    """
    fast = {x.dtype, dtype} == {_FLOAT16, _FLOAT32} and x.size >= _FEWEST and _has_instructions()
    if not fast or (out is not None and not out.flags.c_contiguous):
        if out is None:
            return x.astype(dtype)
        np.copyto(out, x, casting="unsafe")
        return out
    from onnxgen.graph.cpu.compiled.halves import PART, conversion

    y = np.empty(x.shape, dtype) if out is None else out
    flat = np.ascontiguousarray(x).reshape(-1)
    to_half = dtype == _FLOAT16
    share(
        conversion(to_half=to_half),
        flat if to_half else flat.view(np.uint16),
        y.reshape(-1).view(np.uint16) if to_half else y.reshape(-1),
        parts=-(-x.size // PART),
        seconds=x.size / _ELEMENTS_PER_S,
    )
    return y
