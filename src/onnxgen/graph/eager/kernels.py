"""Kernels of single operators, compiled once for each set of types and attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.errors import FeedError, UnsupportedOperatorError
from onnxgen.graph.eager.attributes import Key, node_attributes
from onnxgen.graph.eager.inputs import type_of_key
from onnxgen.graph.eager.outputs import output_types
from onnxgen.graph.ep.from_graph import captured_values
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import HOST, Claim, ExecutionProvider
from onnxgen.graph.ir.schemas import schema, since_version
from onnxgen.graph.ir.types import TensorType
from onnxgen.graph.shapes.schema_types import wrong_input

Run = Callable[..., Any]
"""Host values in, host values out, as `onnxgen.graph.ep.kernel.Kernel.run`."""


def kernel_cache(providers: Callable[[], Sequence[ExecutionProvider]], size: int) -> Any:
    """A cached function from ``(domain, op_type, opset, type keys, attributes key, number of outputs)`` to a `Run`.

    Args:
        providers: Tells whom to ask, in order.
        size: How many kernels to keep; the one used longest ago goes first.
    """

    @lru_cache(size)
    def kernel(
        domain: str, op_type: str, opset: int, types: tuple[Any, ...], attributes: Key, num_outputs: int
    ) -> Run:
        node = node_of_call(domain, op_type, opset, types, attributes, num_outputs)
        _check_types(node)
        return compile_node(node, providers())

    return kernel


def _check_types(node: NodeSpec) -> None:
    definition = schema(node.domain, node.op_type, node.opset)
    if definition is None:
        return
    tensors = {i: str(kind) for i, kind in enumerate(node.inputs) if isinstance(kind, TensorType)}
    found = wrong_input(definition, tensors)
    if found is not None:
        index, reason = found
        raise FeedError(f"{node.op_type}: input {index} {reason}")


def node_of_call(
    domain: str, op_type: str, opset: int, types: tuple[Any, ...], attributes: Key, num_outputs: int
) -> NodeSpec:
    """The node that a call stands for."""
    found = schema(domain, op_type, opset)
    values = node_attributes(attributes)
    names = captured_names(values)
    inputs = tuple(map(type_of_key, types[: len(types) - len(names)]))
    return NodeSpec(
        domain=domain,
        op_type=op_type,
        opset=opset,
        since_version=since_version(domain, op_type, opset),
        attributes=values,
        inputs=inputs,
        outputs=output_types(found, inputs, num_outputs),
        captures=names,
    )


def captured_names(attributes: dict[str, Any]) -> tuple[str, ...]:
    """Names of outer values that graphs among the attributes use."""
    graphs = [ir.AttrGraph(name, value) for name, value in attributes.items() if isinstance(value, ir.Graph)]
    if not graphs:
        return ()
    # graphs that were made apart from each other have each its own object for one outer value
    return tuple(dict.fromkeys(value.name or "" for value in captured_values(ir.Node("", "If", (), graphs))))


def compile_node(node: NodeSpec, providers: Sequence[ExecutionProvider]) -> Run:
    """The first claiming provider's kernel.

    Raises:
        UnsupportedOperatorError: nobody claims it; the message has every reason.
    """
    reasons: list[str] = []
    for provider in providers:
        claim = provider.claim(node)
        if isinstance(claim, Claim):
            run = provider.compile(node, claim).run
            return run if provider.device == HOST else _over_the_border(run, provider)
        reasons.append(f"{provider.name} declined: {claim.reason}")
    types = ", ".join("left out" if kind is None else str(kind) for kind in node.inputs)
    raise UnsupportedOperatorError(f"no provider runs {node} of ({types}): {'; '.join(reasons)}")


def _over_the_border(run: Run, provider: ExecutionProvider) -> Run:
    def on_device(*values: Any) -> Any:
        results = run(
            *(provider.to_device(value) if isinstance(value, np.ndarray) else value for value in values)
        )
        provider.synchronize()
        if isinstance(results, tuple):
            return tuple(None if value is None else provider.to_host(value) for value in results)
        return provider.to_host(results)

    return on_device
