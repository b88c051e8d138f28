"""Numbers: distances, complex products, Fourier transforms, inverses and warping paths of ``com.microsoft``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.activations import gelu_tanh
from onnxgen.graph.cpu.half import widened, widening
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


def _square_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    squares = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1) - 2 * (a @ b.T)
    return np.maximum(squares, 0)


_METRICS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "sqeuclidean": _square_distances,
    "euclidean": lambda a, b: np.sqrt(_square_distances(a, b)),
    "cityblock": lambda a, b: np.abs(a[:, None] - b).sum(axis=-1),
    "chebyshev": lambda a, b: np.abs(a[:, None] - b).max(axis=-1),
}


def _unknown_metric(node: NodeSpec) -> str | None:
    metric = node.attr("metric", "sqeuclidean")
    return None if metric in _METRICS else f"metric {metric!r} is none of {', '.join(_METRICS)}"


@TABLE.operator("CDist", 1, domain=MICROSOFT, why_not=_unknown_metric)
def cdist(node: NodeSpec) -> Kernel:
    """The distance of each row of one matrix to each row of the other."""
    return Kernel(_METRICS[node.attr("metric", "sqeuclidean")])


@TABLE.operator("ComplexMul", 1, domain=MICROSOFT)
@TABLE.operator("ComplexMulConj", 1, domain=MICROSOFT)
def complex_mul(node: NodeSpec) -> Kernel:
    """Products of complex numbers, whose parts are the last axis; the second is conjugated where the name says so."""
    sign = -1 if node.op_type == "ComplexMulConj" else 1

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        ar, ai, br, bi = a[..., 0], a[..., 1], b[..., 0], sign * b[..., 1]
        return np.stack([ar * br - ai * bi, ar * bi + ai * br], axis=-1)

    return Kernel(widening(run))


def _beyond_fft(node: NodeSpec) -> str | None:
    if node.attr("onesided", 1) != 1 or node.attr("normalized", 0):
        return "only the onesided transform without normalization is defined"
    return None


@TABLE.operator("Rfft", 1, domain=MICROSOFT, why_not=_beyond_fft)
def rfft(node: NodeSpec) -> Kernel:
    """The transform of real signals on the last axes; real and imaginary parts on a new last axis."""
    axes = tuple(range(-node.attr("signal_ndim", 1), 0))

    def run(x: np.ndarray) -> np.ndarray:
        y = np.fft.rfftn(widened(x), axes=axes)
        return np.stack([y.real, y.imag], axis=-1).astype(x.dtype)

    return Kernel(run)


@TABLE.operator("Irfft", 1, domain=MICROSOFT, why_not=_beyond_fft)
def irfft(node: NodeSpec) -> Kernel:
    """The inverse of `rfft`, of an even length."""
    axes = tuple(range(-node.attr("signal_ndim", 1), 0))

    def run(x: np.ndarray) -> np.ndarray:
        wide = widened(x)
        return np.fft.irfftn(wide[..., 0] + 1j * wide[..., 1], axes=axes).astype(x.dtype)

    return Kernel(run)


@TABLE.operator("Inverse", 1, domain=MICROSOFT)
def inverse(node: NodeSpec) -> Kernel:
    """Of each matrix of a batch."""

    def run(x: np.ndarray) -> np.ndarray:
        try:
            return np.linalg.inv(x)
        except np.linalg.LinAlgError as cause:
            raise KernelError(f"{node}: {cause} (input of shape {x.shape})") from cause

    return Kernel(widening(run))


@TABLE.operator("IsAllFinite", 1, domain=MICROSOFT)
def is_all_finite(node: NodeSpec) -> Kernel:
    """Whether no input has an infinity or NaN, or only one of them where the node says so."""
    only_inf, only_nan = node.attr("isinf_only", 0), node.attr("isnan_only", 0)
    bad: Callable[[np.ndarray], Any] = (
        np.isinf if only_inf else np.isnan if only_nan else lambda x: ~np.isfinite(x)
    )

    def run(*inputs: np.ndarray) -> np.ndarray:
        return np.array(not any(bad(widened(x)).any() for x in inputs))

    return Kernel(run)


@TABLE.operator("GemmFastGelu", 1, domain=MICROSOFT)
def gemm_fast_gelu(node: NodeSpec) -> Kernel:
    """`gelu_tanh` of a matrix product with a bias."""

    def run(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
        y = x @ weight
        return gelu_tanh(y if bias is None else y + bias)

    return Kernel(widening(run))


@TABLE.operator("DynamicTimeWarping", 1, domain=MICROSOFT)
def dynamic_time_warping(node: NodeSpec) -> Kernel:
    """The cheapest path from the first corner of a cost matrix to the last: rows over columns, int32."""

    def run(costs: np.ndarray) -> np.ndarray:
        if costs.ndim not in (2, 3) or costs.size == 0 or (costs.ndim == 3 and len(costs) != 1):
            raise KernelError(f"{node}: needs one matrix of costs, its input is of shape {costs.shape}")
        return np.array(_cheapest_path(costs.reshape(costs.shape[-2:])), np.int32).T.copy()

    return Kernel(run)


def _cheapest_path(costs: np.ndarray) -> list[tuple[int, int]]:
    rows, columns = costs.shape
    total = np.full((rows + 1, columns + 1), np.inf, np.float32)
    total[0, 0] = 0
    steps = np.full((rows + 1, columns + 1), 2, np.int8)
    steps[:, 0], steps[0] = 1, 2
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            before = (total[i - 1, j - 1], total[i - 1, j], total[i, j - 1])
            # Strictly less: of equal ways the one along the row is taken.
            step = 0 if before[0] < min(before[1:]) else 1 if before[1] < min(before[0], before[2]) else 2
            steps[i, j], total[i, j] = step, before[step] + costs[i - 1, j - 1]
    path: list[tuple[int, int]] = []
    i, j = rows, columns
    while i > 0 or j > 0:
        path.append((i - 1, j - 1))
        step = steps[i, j]
        i, j = i - (step != 2), j - (step != 1)
    return path[::-1]
