"""Softmax and its kin before opset 13: everything from ``axis`` on is one vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from onnxgen.graph.reference.own.table import OwnOperators

OWN = OwnOperators()


def _log_softmax(rows: np.ndarray) -> np.ndarray:
    shifted = rows - rows.max(axis=1, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _hardmax(rows: np.ndarray) -> np.ndarray:
    result = np.zeros_like(rows)
    if rows.size:
        result[np.arange(len(rows)), rows.argmax(axis=1)] = 1
    return result


def _operator(of_rows: Callable[[np.ndarray], np.ndarray]) -> type[OpRun]:
    class OfRows(OpRun):
        """One operator of the rows of a matrix."""

        def _run(self, x: np.ndarray, *, axis: int) -> Any:
            rows = math.prod(x.shape[: axis % max(x.ndim, 1)])
            matrix = x.astype(np.float64).reshape(rows, x.size // max(rows, 1))
            return (of_rows(matrix).astype(x.dtype).reshape(x.shape),)

    return OfRows


OWN.operator("Softmax", 1, 11)(_operator(lambda rows: np.exp(_log_softmax(rows))))
OWN.operator("LogSoftmax", 1, 11)(_operator(_log_softmax))
OWN.operator("Hardmax", 1, 11)(_operator(_hardmax))
