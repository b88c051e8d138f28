"""Attention whose scores and probabilities somebody may change on the way (FlexAttention of ``ai.onnx.preview``)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.attention import grouped_matmul, softmax
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import numpy_dtype

Change = Callable[[np.ndarray], np.ndarray]
"""Takes and gives ``[batch, heads, queries, keys]`` of the type of `softmax_dtype`."""


def softmax_dtype(node: NodeSpec, queries: np.dtype) -> np.dtype:
    """What scores and probabilities are made of: what the node says, else float32, or float64 for such queries."""
    precision = node.attr("softmax_precision")
    if precision is not None:
        return numpy_dtype(ir.DataType(precision))
    return np.dtype(np.float64 if queries == np.float64 else np.float32)


def flex_attend(
    node: NodeSpec,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    score_mod: Change | None = None,
    prob_mod: Change | None = None,
) -> np.ndarray:
    """``softmax(scale * q k^T) v``, with key heads shared by neighbours.

    Args:
        node: The node.
        q: ``[batch, heads, queries, head_dim]``.
        k: ``[batch, kv_heads, keys, head_dim]``.
        v: ``[batch, kv_heads, keys, v_head_dim]``.
        score_mod: Changes the scores before the softmax.
        prob_mod: Changes the probabilities after it.

    Returns:
        ``[batch, heads, queries, v_head_dim]``, of the type of ``q``.
    """
    if not k.shape[1] or q.shape[1] % k.shape[1]:
        raise KernelError(f"{node}: {q.shape[1]} query heads do not share {k.shape[1]} key heads")
    scale, between = node.attr("scale"), softmax_dtype(node, q.dtype)
    queries = widened(q)
    queries = queries * queries.dtype.type(q.shape[3] ** -0.5 if scale is None else scale)
    scores = _changed(grouped_matmul(queries, widened(k).swapaxes(2, 3)), score_mod, between)
    weights = _changed(softmax(scores), prob_mod, between)
    output = grouped_matmul(weights.astype(queries.dtype, copy=False), widened(v))
    return output.astype(q.dtype, copy=False)


def _changed(values: np.ndarray, change: Change | None, between: np.dtype) -> np.ndarray:
    if change is not None:
        values = change(values.astype(between, copy=False))
    return widened(values.astype(between, copy=False))
