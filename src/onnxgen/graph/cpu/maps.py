"""Functions of float32 arrays in one compiled pass, shared by threads where they are long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnxgen.graph.cpu.team import share

if TYPE_CHECKING:
    from onnxgen.graph.cpu.compiled.maps import Function

_ELEMENTS_PER_S = 2e9
"""Of one thread, roughly: to tell what is worth sharing."""


def mapped(
    name: Function,
    x: np.ndarray,
    y: np.ndarray | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> np.ndarray:
    """The function of every element.

    Args:
        name: One of `compiled.maps`.
        x: float32 of any strides.
        y: Where the result goes, float32 and C-contiguous; it may be the memory of ``x``.
        alpha: The first parameter of functions that have one.
        beta: The second.
    """
    from onnxgen.graph.cpu.compiled.maps import PART, mapping

    result = np.empty(x.shape, np.float32) if y is None else y
    share(
        mapping(name),
        np.ascontiguousarray(x).reshape(-1),
        result.reshape(-1),
        alpha,
        beta,
        parts=-(-x.size // PART),
        seconds=x.size / _ELEMENTS_PER_S,
    )
    return result
