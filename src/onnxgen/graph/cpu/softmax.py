"""Softmax along one axis, its logarithm and its limit, written into memory that is given."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.rowwise import has_rows, softmax_rows
from onnxgen.graph.cpu.stepwise import HALVES, softmax_in_steps


def softmax(x: np.ndarray, y: np.ndarray, axis: int) -> None:
    """``exp(x) / sum(exp(x))`` along an axis, shifted by the maximum; ``y`` may be ``x``."""
    if x.dtype in HALVES:
        y[...] = softmax_in_steps(x, axis)
        return
    if has_rows(x, axis) and y.flags.c_contiguous:
        softmax_rows(x, y)
        return
    np.subtract(x, x.max(axis, keepdims=True), y)
    np.exp(y, y)
    np.divide(y, y.sum(axis, keepdims=True), y)


def log_softmax(x: np.ndarray, y: np.ndarray, axis: int) -> None:
    """The logarithm of the softmax; ``y`` may be ``x``."""
    if has_rows(x, axis) and y.flags.c_contiguous:
        softmax_rows(x, y, logarithm=True)
        return
    np.subtract(x, x.max(axis, keepdims=True), y)
    np.subtract(y, np.log(np.exp(y).sum(axis, keepdims=True)), y)


def hardmax(x: np.ndarray, y: np.ndarray, axis: int) -> None:
    """1 at the first maximum along an axis, 0 elsewhere; ``y`` may be ``x``."""
    highest = x.argmax(axis, keepdims=True)
    y[...] = 0
    np.put_along_axis(y, highest, 1, axis)
