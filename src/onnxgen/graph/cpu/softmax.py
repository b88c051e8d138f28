"""Softmax along one axis, its logarithm and its limit, written into memory that is given."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.sampling_rows import softmax_rows
from onnxgen.graph.cpu.stepwise import HALVES, softmax_in_steps


def softmax(x: np.ndarray, y: np.ndarray, axis: int) -> None:
    """``exp(x) / sum(exp(x))`` along an axis, shifted by the maximum; ``y`` may be ``x``."""
    if x.dtype in HALVES:
        y[...] = softmax_in_steps(x, axis)
        return
    if _has_rows(x, y, axis):
        _of_rows(x, y, logarithm=False)
        return
    np.subtract(x, x.max(axis, keepdims=True), y)
    np.exp(y, y)
    np.divide(y, y.sum(axis, keepdims=True), y)


def log_softmax(x: np.ndarray, y: np.ndarray, axis: int) -> None:
    """The logarithm of the softmax; ``y`` may be ``x``."""
    if _has_rows(x, y, axis):
        _of_rows(x, y, logarithm=True)
        return
    np.subtract(x, x.max(axis, keepdims=True), y)
    np.subtract(y, np.log(np.exp(y).sum(axis, keepdims=True)), y)


def hardmax(x: np.ndarray, y: np.ndarray, axis: int) -> None:
    """1 at the first maximum along an axis, 0 elsewhere; ``y`` may be ``x``."""
    highest = x.argmax(axis, keepdims=True)
    y[...] = 0
    np.put_along_axis(y, highest, 1, axis)


def _has_rows(x: np.ndarray, y: np.ndarray, axis: int) -> bool:
    """Whether the axis is the last one of a float32 tensor with elements."""
    return x.dtype == np.float32 and x.size > 0 and axis in (-1, x.ndim - 1) and y.flags.c_contiguous


def _of_rows(x: np.ndarray, y: np.ndarray, *, logarithm: bool) -> None:
    size = x.shape[-1]
    softmax_rows(np.ascontiguousarray(x).reshape(-1, size), y.reshape(-1, size), logarithm=logarithm)
