"""Broadcasting as operators had it before opset 7: an attribute says where the second shape sits in the first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec


def with_legacy_broadcast(node: NodeSpec, kernel: Kernel) -> Kernel:
    """A binary kernel that follows the attributes ``broadcast`` and ``axis`` (opsets 1 and 6).

    With ``broadcast=1`` the second shape is a contiguous part of the first that begins at ``axis``, or its end when
    there is no ``axis``; without, the shapes are equal. The result has the first shape, so only the first input's
    memory can be the output's.
    """
    fit = _fitting(node)
    run, write = kernel.run, kernel.into
    assert write is not None

    def fitted(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return run(a, fit(a, b))

    def into(a: np.ndarray, b: np.ndarray, y: np.ndarray) -> None:
        write(a, fit(a, b), y)

    in_place = tuple(pair for pair in kernel.in_place if pair == (0, 0))
    return Kernel(fitted, into, in_place=in_place)


def _fitting(node: NodeSpec) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    allowed, axis = bool(node.attr("broadcast", 0)), node.attr("axis")

    def fit(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if a.shape == b.shape:
            return b
        if not allowed:
            raise KernelError(
                f"{node}: shapes {a.shape} and {b.shape} differ; before opset 7 that needs broadcast=1"
            )
        start = a.ndim - b.ndim if axis is None else axis + (a.ndim if axis < 0 else 0)
        covered = a.shape[start : start + b.ndim] if start >= 0 else ()
        if len(covered) != b.ndim or any(m not in (1, n) for m, n in zip(b.shape, covered, strict=True)):
            raise KernelError(f"{node}: shape {b.shape} is no part of {a.shape} that begins at axis {start}")
        return b[(..., *[None] * (a.ndim - start - b.ndim))]

    return fit
