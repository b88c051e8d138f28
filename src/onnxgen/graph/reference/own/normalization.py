"""BatchNormalization before opset 14, and norms that onnx.reference has wrong in every version."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from onnxgen.graph.reference.own.table import OwnOperators

OWN = OwnOperators()


@OWN.operator("BatchNormalization", 1, 6, 7, 9)
class BatchNormalization(OpRun):
    """Normalizes each channel, or each position of one where ``spatial`` is 0.

    Until version 6 ``is_test`` says that the given mean and variance count; since then, that nobody asks for more than
    the first output. Otherwise those of the batch count, and the outputs are the running mean and variance, then
    those of the batch.
    """

    def _run(
        self,
        x: np.ndarray,
        scale: np.ndarray,
        bias: np.ndarray,
        mean: np.ndarray,
        variance: np.ndarray,
        *,
        epsilon: float,
        momentum: float,
        is_test: int | None = None,
        spatial: int = 1,
        **_consumed_inputs: Any,
    ) -> Any:
        num_outputs = len(self.onnx_node.output)
        given = bool(is_test) if is_test is not None else num_outputs == 1
        shape = (-1, *[1] * (x.ndim - 2)) if spatial else x.shape[1:]
        if given:
            used = running = (mean, variance)
        else:
            axes = (0, *range(2, x.ndim)) if spatial else (0,)
            used = (x.mean(axis=axes), x.var(axis=axes))
            running = tuple(
                old * momentum + new.reshape(old.shape) * (1 - momentum)
                for old, new in zip((mean, variance), used, strict=True)
            )
        used_mean, used_variance = (value.reshape(shape).astype(np.float64) for value in used)
        y = (x - used_mean) / np.sqrt(used_variance + epsilon) * scale.reshape(shape) + bias.reshape(shape)
        outputs = [np.asarray(y), *running, *(value.reshape(mean.shape) for value in used)]
        return tuple(np.asarray(value).astype(x.dtype) for value in outputs[:num_outputs])


@OWN.operator("LpNormalization", 1, 22)
class LpNormalization(OpRun):
    """Divides by the norm along an axis; where that is 0 the result is 0."""

    def _run(self, x: np.ndarray, *, axis: int, p: int) -> Any:
        norm = np.linalg.norm(x.astype(np.float64), ord=p, axis=axis, keepdims=True)
        divided = np.divide(x, norm, out=np.zeros(x.shape), where=norm != 0)
        return (divided.astype(x.dtype),)


@OWN.operator("LRN", 1, 13)
class LRN(OpRun):
    """Divides by a power of the sum of squares over ``size`` neighbouring channels."""

    def _run(self, x: np.ndarray, *, alpha: float, beta: float, bias: float, size: int) -> Any:
        squares = x.astype(np.float64) ** 2
        sums = np.zeros_like(squares)
        before, behind = (size - 1) // 2, size // 2
        for channel in range(x.shape[1]):
            sums[:, channel] = squares[:, max(0, channel - before) : channel + behind + 1].sum(axis=1)
        return ((x / (bias + alpha / size * sums) ** beta).astype(x.dtype),)
