"""FlexAttention of ``ai.onnx.preview`` whose graphs change scores or probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from onnxgen.graph.cpu.flex_attention import flex_attend
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.session.routine import Routine
from onnxgen.graph.session.running import Run


def flex_attention_kernel(node: NodeSpec, graphs: Mapping[str, Routine]) -> Kernel:
    """Attention with ``score_mod`` before the softmax and ``prob_mod`` after it, of which one may be missing."""

    def run(state: Run, q: np.ndarray, k: np.ndarray, v: np.ndarray, *outer: Any) -> np.ndarray:
        changes = {name: partial(_changed, graph, state, outer) for name, graph in graphs.items()}
        return flex_attend(node, q, k, v, **changes)

    return Kernel(run)


def _changed(graph: Routine, state: Run, outer: tuple[Any, ...], values: np.ndarray) -> np.ndarray:
    state.check()
    (result,) = graph(state, values, *outer)
    if result.shape != values.shape or result.dtype != values.dtype:
        raise ValueError(
            f"a graph of it made {result.dtype}{list(result.shape)} of {values.dtype}{list(values.shape)}; "
            "type and shape must stay"
        )
    return result
