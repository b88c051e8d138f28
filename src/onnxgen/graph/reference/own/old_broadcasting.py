"""Operators of two tensors before opset 7: equal shapes, or the second is laid over an axis of the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from onnxgen.graph.reference.own.table import OwnOperators

OWN = OwnOperators()


def lay_over(x: np.ndarray, y: np.ndarray, axis: int | None) -> np.ndarray:
    """The second tensor with trailing dimensions of 1, so that its dimensions meet those of ``x`` from ``axis`` on."""
    if axis is None or y.ndim == 0:
        return y
    behind = x.ndim - (axis % x.ndim) - y.ndim
    return y.reshape(y.shape + (1,) * max(behind, 0))


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind not in "iu":
        return x / y
    return (np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))).astype(x.dtype)  # towards zero


def _operator(compute: Callable[[np.ndarray, np.ndarray], Any]) -> type[OpRun]:
    class OfTwo(OpRun):
        """One operator of two tensors."""

        def _run(
            self,
            x: np.ndarray,
            y: np.ndarray,
            *,
            broadcast: int = 0,
            axis: int | None = None,
            **_consumed_inputs: Any,
        ) -> Any:
            return (np.asarray(compute(x, lay_over(x, y, axis) if broadcast else y)),)

    return OfTwo


for _op_type, _compute in {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divide}.items():
    OWN.operator(_op_type, 1, 6)(_operator(_compute))
for _op_type, _compute in {
    "Pow": np.power,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
}.items():
    OWN.operator(_op_type, 1)(_operator(_compute))
