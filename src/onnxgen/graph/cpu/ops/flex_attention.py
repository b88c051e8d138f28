"""FlexAttention of ``ai.onnx.preview`` where no graph changes scores or probabilities."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.arrays import function_kernel
from onnxgen.graph.cpu.flex_attention import flex_attend
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


def _has_graphs(node: NodeSpec) -> str | None:
    graphs = [name for name in ("score_mod", "prob_mod") if node.attr(name) is not None]
    return f"runs no graph inside it ({', '.join(graphs)})" if graphs else None


@TABLE.operator("FlexAttention", 1, domain="ai.onnx.preview", why_not=_has_graphs)
def flex_attention(node: NodeSpec) -> Kernel:
    """``softmax(scale * q k^T) v`` over (batch, heads, seq, head_dim), with key heads shared by neighbours."""

    def run(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        return flex_attend(node, q, k, v)

    return function_kernel(run)
