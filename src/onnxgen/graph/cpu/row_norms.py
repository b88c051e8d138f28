"""Layer and RMS normalization along the last axes of float32, float16 and bfloat16, alone or of a sum."""

from __future__ import annotations

from math import prod

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.head_rows import ELEMENT_KINDS, FLOAT_TYPES
from onnxgen.graph.cpu.team import share

_ELEMENTS_PER_S = 6e9
"""Of one thread, roughly: to tell what is worth sharing."""

_HALVES = FLOAT_TYPES - {np.dtype(np.float32)}

_ELEMENTS_OF_A_PART = 16384

_NO_FLOATS, _NO_HALVES = np.empty((0, 0), np.float32), np.empty((0, 0), np.uint16)
_NO_FLOAT = np.empty(0, np.float32)


def can_norm(*arrays: np.ndarray | None) -> bool:
    """Whether all are of types that `norm_rows` reads."""
    return all(x is None or x.dtype in FLOAT_TYPES for x in arrays)


def norm_rows(
    x: np.ndarray,
    y: np.ndarray,
    *,
    axes: int = 1,
    epsilon: float,
    centered: bool,
    weight: np.ndarray | None = None,
    offset: np.ndarray | None = None,
    skip: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    total: np.ndarray | None = None,
    means: np.ndarray | None = None,
    inverses: np.ndarray | None = None,
    rounds: bool = False,
) -> None:
    """``(sum - mean) / sqrt(variance + epsilon) * weight + offset`` with ``sum = x + skip + bias``.

    Args:
        x: Any shape with elements.
        y: Of its shape and type, C-contiguous; perhaps the memory of ``x`` or ``skip``.
        axes: How many of the last axes are normalized together.
        epsilon: Added to the variance.
        centered: Whether the mean is subtracted; otherwise it is taken for 0.
        weight: As many elements as are normalized together; None for 1.
        offset: Likewise; None for 0. Not without a weight.
        skip: Of the type of ``x`` and the shape of its last axes: it is added again and again.
        bias: Of the type of ``x``: as many elements as are normalized together.
        total: Where the sum goes, like ``x``; C-contiguous.
        means: float32, where those of the rows go; C-contiguous. Not without ``inverses``.
        inverses: Likewise: 1 / sqrt(variance + epsilon).
        rounds: Whether what is normalized is rounded to the type of ``x`` before it is multiplied.

    Raises:
        KernelError: shapes do not fit each other.
    """
    from onnxgen.graph.cpu.compiled.normalizing import normalize

    width = prod(x.shape[x.ndim - axes :])
    rows = x.size // width
    for values in (weight, offset, bias):
        if values is not None and values.size != width:
            raise KernelError(f"{values.shape} elements do not fit the {width} that are normalized together")
    if skip is not None and not repeats(skip, x.shape):
        raise KernelError(f"skip {skip.shape} does not broadcast to input {x.shape}")
    elements = x.dtype if x.dtype == np.float32 else np.dtype(np.uint16)

    def as_rows(values: np.ndarray | None) -> np.ndarray:
        if values is None:
            return _NO_FLOATS if elements == np.float32 else _NO_HALVES
        return np.ascontiguousarray(values).reshape(-1, width).view(elements)

    each = max(1, _ELEMENTS_OF_A_PART // width)
    share(
        normalize(elements),
        *(as_rows(x), as_rows(skip), as_rows(bias), as_rows(total), as_rows(y)),
        ELEMENT_KINDS[x.dtype],
        _NO_FLOAT if weight is None else np.ascontiguousarray(widened(weight)).reshape(-1),
        _NO_FLOAT if offset is None else np.ascontiguousarray(widened(offset)).reshape(-1),
        _NO_FLOAT if means is None else means.reshape(-1),
        _NO_FLOAT if inverses is None else inverses.reshape(-1),
        epsilon,
        centered,
        rounds,
        each,
        parts=-(-rows // each),
        seconds=x.size / _ELEMENTS_PER_S,
    )


def serves_halves(
    x: np.ndarray, axes: tuple[int, ...], weight: np.ndarray, offset: np.ndarray | None
) -> bool:
    """Whether `norm_halves` can do it: 16-bit elements all of them, with a weight for each that is normalized together."""
    width = prod(x.shape[axis] for axis in axes)
    terms = [weight] if offset is None else [weight, offset]
    return x.size > 0 and x.dtype in _HALVES and all(v.dtype == x.dtype and v.size == width for v in terms)


def norm_halves(
    x: np.ndarray,
    axes: tuple[int, ...],
    epsilon: float,
    *,
    centered: bool,
    weight: np.ndarray,
    offset: np.ndarray | None = None,
    rounds: bool = False,
    out: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`norm_rows` over the last axes into new memory or ``out``, with the means and inverse deviations, axes kept."""
    kept = (*x.shape[: x.ndim - len(axes)], *(1,) * len(axes))
    y = np.empty(x.shape, x.dtype) if out is None else out
    means, inverses = np.empty((2, *kept), np.float32)
    norm_rows(
        *(x, y),
        axes=len(axes),
        epsilon=epsilon,
        centered=centered,
        weight=weight,
        offset=offset,
        means=means,
        inverses=inverses,
        rounds=rounds,
    )
    return y, means, inverses


def repeats(skip: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether a tensor of that shape consists of such tensors, one after the other."""
    if skip.shape == shape:
        return True
    ones = next((axis for axis, size in enumerate(skip.shape) if size != 1), skip.ndim)
    rest = skip.shape[ones:]
    return skip.size > 0 and skip.ndim <= len(shape) and shape[len(shape) - len(rest) :] == rest
