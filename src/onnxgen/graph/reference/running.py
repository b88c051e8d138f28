"""Nodes as objects of onnx.reference that can be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpFunction

from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.schemas import newest_opset, schema
from onnxgen.graph.ir.types import SequenceType, TensorType, ValueType, onnx_dtype
from onnxgen.graph.reference.lookup import operator_class, replacements
from onnxgen.graph.reference.node_proto import node_proto, type_proto

Call = Callable[[Sequence[Any], Mapping[str, Any]], Sequence[Any]]
"""Takes the node's inputs, and values that its graphs use by name; gives its outputs."""

_KEPT_BODIES = 16


def class_call(node: NodeSpec) -> Call:
    """A call of the class that runs the node's operator."""
    implementation = operator_class(node.domain, node.op_type, node.opset)
    assert implementation is not None
    operator = implementation(node_proto(node), _run_params(node))
    if operator.need_context():
        return lambda inputs, captured: operator.run(*inputs, context=dict(captured))
    return lambda inputs, captured: operator.run(*inputs)


def function_call(node: NodeSpec) -> Call:
    """A call of the function that defines the node's operator; it may depend on the types of the inputs."""
    proto = node_proto(node)

    @lru_cache(maxsize=_KEPT_BODIES)
    def body(types: tuple[ValueType | None, ...]) -> tuple[ReferenceEvaluator, Mapping[str, Any]]:
        function = _function(node, proto, types)
        opsets = tuple((entry.domain, entry.version) for entry in function.opset_import)
        evaluator = ReferenceEvaluator(function, new_ops=list(replacements(opsets)))
        return evaluator, OpFunction(proto, _run_params(node), impl=evaluator).attributes_

    def call(inputs: Sequence[Any], captured: Mapping[str, Any]) -> Sequence[Any]:
        evaluator, attributes = body(tuple(map(_type_of, inputs)))
        given = [*inputs, *[None] * (len(evaluator.input_names) - len(inputs))]
        names = [str(name) for name in evaluator.input_names]
        feeds = {**captured, **dict(zip(names, given, strict=True))}
        results = evaluator.run(None, feeds, attributes=dict(attributes))
        assert isinstance(results, list)
        return results

    return call


def inner_opsets(node: NodeSpec) -> dict[str, int]:
    """What graphs inside a node import: of its own domain the same, of others the newest."""
    others = {domain: newest_opset(domain) for domain in ("", "ai.onnx.ml", "ai.onnx.preview")}
    return {**others, node.domain: node.opset}


def _function(node: NodeSpec, proto: onnx.NodeProto, types: Sequence[ValueType | None]) -> onnx.FunctionProto:
    known: Any = schema(node.domain, node.op_type, node.opset)  # its stub lacks what is asked here
    if known.has_function:
        return known.function_body
    serialized = [type_proto(kind).SerializeToString() for kind in types]
    written = known.get_context_dependent_function(proto.SerializeToString(), serialized)
    return onnx.FunctionProto.FromString(written)


def _type_of(value: Any) -> ValueType | None:
    if isinstance(value, list):
        return SequenceType(_type_of(value[0]) or TensorType(1)) if value else None  # type: ignore[arg-type]
    return TensorType(onnx_dtype(value.dtype), value.shape) if isinstance(value, np.ndarray) else None


def _run_params(node: NodeSpec) -> dict[str, Any]:
    opsets = inner_opsets(node)
    own = {(c.op_domain, c.__name__): c for c in replacements(tuple(opsets.items()))}
    return {
        "log": _no_log,
        "opsets": opsets,
        "verbose": 0,
        "new_ops": own,
        "existing_functions": {},
        "evaluator_cls": ReferenceEvaluator,
    }


def _no_log(pattern: str, *args: Any) -> None:
    """onnx.reference tells every step; nobody listens."""
