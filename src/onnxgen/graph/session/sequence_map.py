"""SequenceMap: a graph over the elements of sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.session.control_flow import unpacked
from onnxgen.graph.session.routine import Routine
from onnxgen.graph.session.running import Run


def sequence_map_kernel(node: NodeSpec, graphs: Mapping[str, Routine]) -> Kernel:
    """``SequenceMap``: one turn for each element of the first sequence; further ones go along, tensors stay."""
    body, num_inputs = graphs["body"], len(node.inputs)

    def run(state: Run, *inputs: Any) -> Any:
        given, outer = inputs[:num_inputs], inputs[num_inputs:]
        lengths = [len(value) for value in given if isinstance(value, list)]
        if len(set(lengths)) != 1:
            raise ValueError(f"its sequences have {lengths} elements; they must have the same number")
        rows: list[tuple[Any, ...]] = []
        for turn in range(lengths[0]):
            state.check()
            elements = (value[turn] if isinstance(value, list) else value for value in given)
            rows.append(body(state, *elements, *outer))
        return unpacked(tuple([row[place] for row in rows] for place in range(len(body.program.outputs))))

    return Kernel(run)  # its outputs are lists, which are taken to hold any input's memory
