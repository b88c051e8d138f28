"""The ``reference`` execution provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.graph.ep import host
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import HOST, Claim, Decline
from onnxgen.graph.reference.limits import why_not
from onnxgen.graph.reference.lookup import Way, way_to_run
from onnxgen.graph.reference.running import class_call, function_call, inner_opsets
from onnxgen.graph.reference.values import from_reference, to_reference


class ReferenceProvider:
    """Every operator of the standard through `onnx.reference`: slow, and an oracle for other providers."""

    name = "reference"
    device = HOST
    allocate = staticmethod(host.allocate)
    to_device = staticmethod(host.to_device)
    to_host = staticmethod(host.to_host)
    synchronize = staticmethod(host.synchronize)

    def claim(self, node: NodeSpec) -> Claim | Decline:
        """Claim what onnx.reference has a class or a function for, and what is corrected here."""
        way = way_to_run(node.domain, node.op_type, node.opset)
        if isinstance(way, str):
            return Decline(way)
        reason = why_not(node)
        if reason:
            return Decline(reason)
        for inner in _inner_nodes(node):
            inner_domain = "" if inner.domain == "ai.onnx" else inner.domain
            inside = way_to_run(inner_domain, inner.op_type, _opset(node, inner_domain))
            if isinstance(inside, str):
                return Decline(f"its graph has {inner.op_type}, which does not run here: {inside}")
        return Claim(way.value)

    def compile(self, node: NodeSpec, claim: Claim) -> Kernel:
        """Make a kernel that calls onnx.reference."""
        call = class_call(node) if claim.kernel == Way.CLASS.value else function_call(node)
        num_inputs, num_outputs = len(node.inputs), len(node.outputs)

        def run(*values: Any) -> Any:
            given = [to_reference(value) for value in values]
            # captured values come last, so inputs that are left out at the end are None here
            captured = dict(zip(node.captures, given[num_inputs:], strict=True)) if node.captures else {}
            with np.errstate(all="ignore"):  # what NumPy warns of is a value like any other
                results = list(call(given[:num_inputs], captured))
            results += [None] * (num_outputs - len(results))
            outputs = [
                None if declared is None else from_reference(result, declared, values)
                for result, declared in zip(results, node.outputs, strict=False)
            ]
            return outputs[0] if num_outputs == 1 else tuple(outputs)

        return Kernel(run)


def _inner_nodes(node: NodeSpec) -> Iterator[ir.Node]:
    for value in node.attributes.values():
        graphs = value if isinstance(value, tuple) else (value,)
        for graph in graphs:
            if isinstance(graph, ir.Graph):
                yield from graph.all_nodes()


def _opset(node: NodeSpec, domain: str) -> int:
    return inner_opsets(node).get(domain, 1)
