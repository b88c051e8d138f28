"""What sampling does with rows of logits: arg-max over allowed tokens, the largest few, softmax and its logarithm."""

from __future__ import annotations

from functools import cache

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.step.crew import SCRATCH_BYTES
from onnxgen.graph.cpu.step.kernel import step_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls

_ROWS = int(Header.TOKENS)
_BITS = 32

_COMPARED_PER_S, _WEIGHED_PER_S = 4e9, 1e9
"""Elements of one thread, roughly: to tell what is worth sharing."""

_ELEMENTS_OF_A_PART = 16384

MOST_K = SCRATCH_BYTES // 8
"""The most elements that `top_k` finds."""


def masked_argmax(logits: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """The first of the largest allowed elements of each row; NaN counts as the largest.

    Args:
        logits: float32 ``[rows, vocab]``, contiguous within a row.
        allowed: A bit for each element, the first in the lowest bit: uint32 ``[rows or 1, ceil(vocab / 32)]``; None allows
            all.

    Returns:
        int64 ``[rows]``; -1 where nothing is allowed.

    Raises:
        KernelError: for other types or shapes.
    """
    rows, stride = _checked(logits)
    places = np.empty(rows, np.int64)
    words, words_stride, held = _mask(logits, allowed)
    _argmax().run(
        [(_ROWS, logits.shape[1], logits.ctypes.data, stride, words, words_stride, places.ctypes.data)],
        [_parts(logits)],
        seconds=logits.size / _COMPARED_PER_S,
        rows=rows,
    )
    del held
    return places


def top_k(logits: np.ndarray, k: int, allowed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` largest allowed elements of each row, in order; of equal ones those that come first.

    Args:
        logits: As for `masked_argmax`.
        k: From 0 to the size of a row.
        allowed: As for `masked_argmax`.

    Returns:
        Values, float32 ``[rows, k]``, and places, int64 ``[rows, k]``. Where fewer are allowed the rest is -infinity and -1.

    Raises:
        KernelError: for other types or shapes, or a ``k`` out of range.
    """
    rows, stride = _checked(logits)
    vocab = logits.shape[1]
    if not 0 <= k <= min(vocab, MOST_K):
        raise KernelError(
            f"asked for the {k} largest of {vocab} elements; from 0 to {min(vocab, MOST_K)} can be had"
        )
    values, places = np.empty((rows, k), np.float32), np.empty((rows, k), np.int64)
    if k:
        words, words_stride, held = _mask(logits, allowed)
        arguments = (_ROWS, vocab, logits.ctypes.data, stride, words, words_stride, k)
        _top_k().run(
            [(*arguments, values.ctypes.data, places.ctypes.data)],
            [_parts(logits)],
            seconds=logits.size / _COMPARED_PER_S,
            rows=rows,
        )
        del held
    return values, places


def softmax_rows(x: np.ndarray, y: np.ndarray, *, logarithm: bool = False) -> None:
    """Softmax of each row, or its logarithm.

    A row that holds NaN or infinity, or nothing but -infinity, becomes NaN.

    Args:
        x: float32 ``[rows, size]``, contiguous within a row.
        y: Likewise; may be ``x``.
        logarithm: Whether the logarithm is wanted.

    Raises:
        KernelError: for other types or shapes.
    """
    rows, stride = _checked(x)
    _, y_stride = _checked(y)
    if y.shape != x.shape:
        raise KernelError(f"softmax of {x.shape} cannot be written to {y.shape}")
    _softmax(logarithm).run(
        [(_ROWS, x.shape[1], x.ctypes.data, stride, y.ctypes.data, y_stride)],
        [_parts(x)],
        seconds=x.size / _WEIGHED_PER_S,
        rows=rows,
    )


@cache
def _argmax() -> NodeCalls:
    arguments = ("rows", "width", "x", "x_stride", "allowed", "allowed_stride", "places")
    return NodeCalls(step_kernel("sampling_rows:argmax", arguments))


@cache
def _top_k() -> NodeCalls:
    arguments = ("rows", "width", "x", "x_stride", "allowed", "allowed_stride", "k", "values", "places")
    return NodeCalls(step_kernel("sampling_rows:top_k", arguments))


@cache
def _softmax(logarithm: bool) -> NodeCalls:
    arguments = ("rows", "width", "x", "x_stride", "y", "y_stride")
    return NodeCalls(step_kernel("sampling_rows:softmax", arguments, logarithm=logarithm))


def _parts(x: np.ndarray) -> int:
    return max(1, min(len(x), x.size // _ELEMENTS_OF_A_PART))


def _checked(x: np.ndarray) -> tuple[int, int]:
    """Rows, and floats from one to the next."""
    if x.dtype != np.float32 or x.ndim != 2 or (len(x) and x.shape[1] > 1 and x.strides[1] != x.itemsize):
        raise KernelError(
            f"rows must be float32 [rows, size] with neighbours side by side; found {x.dtype} {x.shape}, strides {x.strides}"
        )
    return len(x), x.strides[0] // x.itemsize


def _mask(logits: np.ndarray, allowed: np.ndarray | None) -> tuple[int, int, np.ndarray | None]:
    """Address and stride of the words of bits, and what keeps them alive."""
    if allowed is None:
        return 0, 0, None
    rows, words = len(logits), -(-logits.shape[1] // _BITS)
    if allowed.dtype != np.uint32 or allowed.shape not in ((rows, words), (1, words)):
        raise KernelError(
            f"the bits of allowed elements must be uint32 {(rows, words)} or {(1, words)}; "
            f"found {allowed.dtype} {allowed.shape}"
        )
    held = np.ascontiguousarray(allowed)
    return held.ctypes.data, words if len(held) > 1 else 0, held
