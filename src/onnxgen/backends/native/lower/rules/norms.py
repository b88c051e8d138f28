"""Norms of rows, or of the heads in a row, alone or with the residual sum before them."""

from __future__ import annotations

import onnx_ir as ir

from onnxgen.backends.native.lower.meanings import DeclineError, Meaning, RowsOf
from onnxgen.backends.native.lower.rule import MICROSOFT, Inputs, RuleTable, at
from onnxgen.backends.native.lower.state import Lowering, integer, real, rows, vector, whole_rows
from onnxgen.backends.native.plan import Family, Part

TABLE = RuleTable()


@TABLE.operator("SimplifiedLayerNormalization", "", MICROSOFT)
@TABLE.operator("RMSNormalization")
def rms_norm(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """``x / rms(x) * scale`` over the last axis."""
    return [_norm(lowering, node, inputs, kind="rms")]


@TABLE.operator("LayerNormalization")
def layer_norm(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """``(x - mean(x)) / std(x) * scale + bias`` over the last axis."""
    return [_norm(lowering, node, inputs, kind="layer")]


@TABLE.operator("SkipSimplifiedLayerNormalization", MICROSOFT)
def skip_rms_norm(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """The same of ``x + skip [+ bias]``, and that sum."""
    return _skip_norm(lowering, node, inputs, kind="rms", bias=None, skip_bias=at(inputs, 3))


@TABLE.operator("SkipLayerNormalization", MICROSOFT)
def skip_layer_norm(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """The same of ``x + skip [+ bias]``, and that sum."""
    return _skip_norm(lowering, node, inputs, kind="layer", bias=at(inputs, 3), skip_bias=at(inputs, 4))


def _norm(lowering: Lowering, node: ir.Node, inputs: Inputs, *, kind: str) -> RowsOf:
    x = rows(at(inputs, 0), "the input")
    axis = integer(node, "axis", -1)
    if axis not in (-1, len(x.shapes[0]) - 1):
        raise DeclineError(f"it norms from axis {axis} of {len(x.shapes[0])}, known is the last one")
    _no_statistics(node, (1, 2))
    weights: dict[str, tuple[Part, str]] = {
        "scale": (vector(at(inputs, 1), "the scale", x.last), _name(node, 1))
    }
    if at(inputs, 2) is not None:
        weights["bias"] = (vector(at(inputs, 2), "the bias", x.last), _name(node, 2))
    return lowering.emit(
        node, Family.NORM, x, width=x.view.width, reads={"x": x}, weights=weights, shapes=x.shapes,
        kind=kind, epsilon=real(node, "epsilon", 1e-5), groups=x.view.width // x.last,
    )  # fmt: skip


def _skip_norm(
    lowering: Lowering,
    node: ir.Node,
    inputs: Inputs,
    *,
    kind: str,
    bias: Meaning | None,
    skip_bias: Meaning | None,
) -> list[Meaning]:
    x, skip = whole_rows(at(inputs, 0), "the input"), whole_rows(at(inputs, 1), "the skip")
    if x.shapes != skip.shapes or x.rows is not skip.rows:
        raise DeclineError(f"input {x.shapes[0]} and skip {skip.shapes[0]} are of different shapes")
    _no_statistics(node, (1, 2))
    weights: dict[str, tuple[Part, str]] = {
        "scale": (vector(at(inputs, 2), "the scale", x.last), _name(node, 2))
    }
    if bias is not None:
        weights["bias"] = (vector(bias, "the bias", x.last), _name(node, 3))
    if skip_bias is not None:
        weights["skip_bias"] = (vector(skip_bias, "the bias of the sum", x.last), _name(node, -1))
    normed = lowering.emit(
        node, Family.NORM, x, width=x.last, reads={"x": x, "skip": skip}, weights=weights, shapes=x.shapes,
        extra={"sum": x.last}, kind=kind, epsilon=real(node, "epsilon", 1e-12), groups=1,
    )  # fmt: skip
    total = lowering.extra(normed, "sum")
    return [normed, normed, normed, total]


def _no_statistics(node: ir.Node, outputs: tuple[int, ...]) -> None:
    for index in outputs:
        if index < len(node.outputs) and (
            node.outputs[index].uses() or node.outputs[index].is_graph_output()
        ):
            raise DeclineError(f"its output {index} (mean or deviation) is used")


def _name(node: ir.Node, index: int) -> str:
    value = node.inputs[index]
    return (value.name if value is not None else None) or "vector"
