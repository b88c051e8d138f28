"""FlexAttention of ``ai.onnx.preview`` where no graph changes scores or probabilities."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.arrays import function_kernel
from onnxgen.graph.cpu.attention import grouped_matmul, softmax
from onnxgen.graph.cpu.half import computing_dtype, widened
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import numpy_dtype

TABLE = KernelTable()


def _has_graphs(node: NodeSpec) -> str | None:
    graphs = [name for name in ("score_mod", "prob_mod") if node.attr(name) is not None]
    return f"runs no graph inside it ({', '.join(graphs)})" if graphs else None


@TABLE.operator("FlexAttention", 1, domain="ai.onnx.preview", why_not=_has_graphs)
def flex_attention(node: NodeSpec) -> Kernel:
    """``softmax(scale * q k^T) v`` over (batch, heads, seq, head_dim), with key heads shared by neighbours."""
    scale, precision = node.attr("scale"), node.attr("softmax_precision")
    softmax_dtype = None if precision is None else computing_dtype(numpy_dtype(ir.DataType(precision)))

    def run(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        if not k.shape[1] or q.shape[1] % k.shape[1]:
            raise KernelError(f"{node}: {q.shape[1]} query heads do not share {k.shape[1]} key heads")
        queries = widened(q)
        queries = queries * queries.dtype.type(q.shape[3] ** -0.5 if scale is None else scale)
        scores = grouped_matmul(queries, widened(k).swapaxes(2, 3))
        weights = softmax(scores if softmax_dtype is None else scores.astype(softmax_dtype))
        output = grouped_matmul(weights.astype(scores.dtype, copy=False), widened(v))
        return output.astype(q.dtype, copy=False)

    return function_kernel(run)
