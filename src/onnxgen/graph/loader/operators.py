"""Nodes against the schemas of their operators."""

from __future__ import annotations

from typing import Any

import onnx
import onnx.defs
import onnx_ir as ir

from onnxgen.foundations.suggest import did_you_mean
from onnxgen.graph.ir.schemas import newest_opset, schema
from onnxgen.graph.loader.defects import Defects
from onnxgen.graph.loader.inner_graphs import check_inner_graphs
from onnxgen.graph.loader.node_opset import node_opset
from onnxgen.graph.loader.versions import opsets
from onnxgen.graph.loader.walk import node_label, proto_graphs

_MESSAGES = {
    onnx.AttributeProto.TENSOR: "t",
    onnx.AttributeProto.GRAPH: "g",
    onnx.AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    onnx.AttributeProto.TYPE_PROTO: "tp",
}

_ELEMENT_TYPES = {
    "to": {"Cast", "BitCast"},
    "dtype": {"Bernoulli", "EyeLike", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
              "RandomUniformLike", "SequenceEmpty"},
    "output_dtype": {"QuantizeLinear", "DequantizeLinear"},
    "output_datatype": {"BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"},
}  # fmt: skip
"""Attributes that are element types, and whose."""

_EARLY = frozenset(("LayerNormalization", "MeanVarianceNormalization", "ThresholdedRelu"))
"""Operators that ONNX Runtime has in the standard's domain for older opsets, too; its optimizer writes such models."""

_KNOWN_TYPES = frozenset(dtype.value for dtype in ir.DataType)
_NOT_SAID = ir.DataType.UNDEFINED.value

_Option = onnx.defs.OpSchema.FormalParameterOption


def check_operators(model: onnx.ModelProto, defects: Defects) -> None:
    """Find nodes whose inputs, outputs or attributes are not those of their operator.

    Operators that onnx does not define are for the execution providers to judge.
    """
    imported = opsets(model)
    for graph in proto_graphs(model):
        for node in graph.node:
            _check_attributes(node, defects)
            opset = node_opset(node, imported)
            if _is_constant(node):
                opset = newest_opset()  # as ONNX Runtime, which makes initializers of them before it asks
            found = schema(node.domain, node.op_type, opset)
            if found is None or found.deprecated:
                _explain_unknown(node, opset, found, defects)
            else:
                _check_against(node, found, defects)
                check_inner_graphs(node, found.since_version, defects)
            if _is_constant(node) and len(node.attribute) != 1:
                defects.add(f"{node_label(node)} has {len(node.attribute)} values, expected 1")


def _is_constant(node: onnx.NodeProto) -> bool:
    return node.op_type == "Constant" and not node.domain


def _check_attributes(node: onnx.NodeProto, defects: Defects) -> None:
    """Each attribute once, of a kind that exists, holding what its kind says."""
    seen: set[str] = set()
    for attribute in node.attribute:
        label = f"attribute {attribute.name!r} of {node_label(node)}"
        if attribute.name in seen:
            defects.add(f"{label} is given twice")
        seen.add(attribute.name)
        if attribute.ref_attr_name:
            defects.add(
                f"{label} refers to attribute {attribute.ref_attr_name!r} of a function, outside of one"
            )
            continue
        if attribute.type == onnx.AttributeProto.UNDEFINED:
            defects.add(f"{label} has no kind")
            continue
        if attribute.type in _MESSAGES and not attribute.HasField(_MESSAGES[attribute.type]):
            defects.add(f"{label} is of kind {_kind_name(attribute.type)} but holds none")


def _explain_unknown(
    node: onnx.NodeProto, opset: int, found: onnx.defs.OpSchema | None, defects: Defects
) -> None:
    label, domain = node_label(node), node.domain or "ai.onnx"
    if found is not None:
        defects.add(
            f"{label} is an operator that {domain} dropped in version {found.since_version}; the model imports {opset}"
        )
        return
    if node.op_type in _EARLY and not node.domain:
        return
    try:
        newer = schema(node.domain, node.op_type, newest_opset(node.domain))
    except KeyError:
        return
    if newer is not None:
        defects.add(
            f"{label} is an operator that {domain} has since a version after {opset}, which the model imports"
        )


def _check_against(node: onnx.NodeProto, known: onnx.defs.OpSchema, defects: Defects) -> None:
    label = node_label(node)
    for what, given, formal, least, most in (
        ("inputs", list(node.input), known.inputs, known.min_input, known.max_input),
        ("outputs", list(node.output), known.outputs, known.min_output, known.max_output),
    ):
        if not least <= len(given) <= most:
            limits = (
                f"{least}" if least == most else f"{least} or more" if most > 2**30 else f"{least} to {most}"
            )
            defects.add(f"{label} has {len(given)} {what}, expected {limits}")
        for name, parameter in zip(given, formal, strict=False):
            if not name and parameter.option == _Option.Single:
                defects.add(f"{label} leaves out {parameter.name!r} of its {what}, which it must have")
    given = {attribute.name: attribute for attribute in node.attribute}
    for name, attribute in given.items():
        if name not in known.attributes:
            hint = did_you_mean(name, known.attributes)
            defects.add(
                f"{label} has an attribute {name!r}, which {known.name}-{known.since_version} does not{hint}"
            )
            continue
        expected: Any = known.attributes[name].type  # an enumeration of C++, which its stub does not show
        if attribute.type and attribute.type != int(expected):
            found = f"is of kind {_kind_name(attribute.type)}"
            defects.add(f"attribute {name!r} of {label} {found}, expected {expected.name}")
        elif (
            known.name in _ELEMENT_TYPES.get(name, ())
            and expected.name == "INT"
            and (attribute.i not in _KNOWN_TYPES or (name == "to" and attribute.i == _NOT_SAID))
        ):
            defects.add(f"attribute {name!r} of {label} is {attribute.i}, which is no element type")
    missing = [name for name, a in known.attributes.items() if a.required and name not in given]
    if missing:
        defects.add(f"{label} has no attribute {' or '.join(map(repr, missing))}, which it must have")


def _kind_name(kind: int) -> str:
    try:
        return onnx.AttributeProto.AttributeType.Name(kind)
    except ValueError:
        return f"{kind}, which does not exist"
