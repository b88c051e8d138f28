"""Operators other than control flow that run graphs: onnx.reference gives those no values from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx.reference.op_run import OpRun
from onnx.reference.ops.aionnx_preview.op_flex_attention import FlexAttention as _FlexAttention

from onnxgen.graph.reference.own.table import OwnOperators

OWN = OwnOperators()


class _InContext:
    """A graph that sees values from outside."""

    def __init__(self, graph: Any, context: Mapping[str, Any]) -> None:
        self._graph = graph
        self._context = context
        self.input_names: Sequence[str] = graph.input_names

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Any], attributes: Any = None) -> list[Any]:
        return self._graph.run(names, {**self._context, **feeds}, attributes=attributes)


@OWN.operator("SequenceMap", 17)
class SequenceMap(OpRun):
    """Runs a graph for each element of a sequence; further sequences go along, tensors are the same each time."""

    def need_context(self) -> bool:
        """It runs a graph, which may use values from outside."""
        return True

    def _run(self, sequence: list[Any], *more: Any, body: Any, context: Any, attributes: Any) -> Any:
        graph = _InContext(body, context)
        results = [
            graph.run(
                None,
                dict(
                    zip(
                        graph.input_names,
                        (first, *(m[index] if isinstance(m, list) else m for m in more)),
                        strict=True,
                    )
                ),
                attributes,
            )
            for index, first in enumerate(sequence)
        ]
        num_outputs = len(self.onnx_node.output)
        return tuple([result[position] for result in results] for position in range(num_outputs))


@OWN.operator("FlexAttention", 1, domain="ai.onnx.preview")
class FlexAttention(_FlexAttention):
    """Attention with graphs that change scores and probabilities."""

    def need_context(self) -> bool:
        """It runs graphs, which may use values from outside."""
        return True

    def _run(  # type: ignore[override]
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        score_mod: Any = None,
        prob_mod: Any = None,
        context: Any,
        **more: Any,
    ) -> Any:
        graphs = {
            name: None if graph is None else _InContext(graph, context)
            for name, graph in (("score_mod", score_mod), ("prob_mod", prob_mod))
        }
        return super()._run(q, k, v, **graphs, **more)  # pyright: ignore[reportPrivateUsage]
