"""Other operators of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
from onnx_shape_inference import registry

from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.rules.tools import (
    Rule,
    axis_in,
    constant,
    integer,
    required,
    set_like,
    set_output,
    sizes,
)

_MS = "com.microsoft"
_LIKE_FIRST = """BiasSoftmax BiasDropout Inverse Trilu DequantizeBFP QuantizeBFP MulInteger Silu"""
_LIKE_FIRST_ONCE_STANDARD = "Affine ParametricSoftplus ScaledTanh ImageScaler Scale"


def _like(index: int) -> Rule:
    return lambda context, node: set_like(context, node, 0, required(node, index))


def _as(op_type: str, opset: int) -> Rule:
    """As an operator of the standard at that opset."""

    def rule(context: Context, node: ir.Node) -> None:
        found = registry.get("", op_type, opset)
        assert found is not None, op_type
        found(context, node)

    return rule


def _skip_norm(context: Context, node: ir.Node) -> None:
    """The norm, its mean and inverse deviation, and the sum that it is taken of."""
    data = required(node, 0)
    shape = sizes(data)
    statistics = None if not shape else [*shape[:-1], 1]
    for index, dims in enumerate((shape, statistics, statistics, shape)):
        set_output(context, node, index, dims, ir.DataType.FLOAT if index in (1, 2) else data.dtype)


def _layer_norm(context: Context, node: ir.Node) -> None:
    """The norm, and the statistics that the attribute ``stash_type`` gives a type."""
    data = required(node, 0)
    shape, stash = sizes(data), ir.DataType(integer(node, "stash_type", ir.DataType.FLOAT))
    statistics = None
    if shape is not None:
        axis = axis_in(integer(node, "axis", -1), len(shape))
        statistics = [*shape[:axis], *[1] * (len(shape) - axis)]
    for index, dims in enumerate((shape, statistics, statistics)):
        set_output(context, node, index, dims, stash if index else data.dtype)


def _expand_dims(context: Context, node: ir.Node) -> None:
    data = required(node, 0)
    shape, axis = sizes(data), constant(context, required(node, 1))
    set_output(context, node, 0, None, data.dtype)
    if shape is not None and axis:
        shape.insert(axis_in(axis[0], len(shape) + 1), 1)
        set_output(context, node, 0, shape, None)


def _unique(context: Context, node: ir.Node) -> None:
    data, count = required(node, 0), context.new_symbolic_dim()
    set_output(context, node, 0, [count], data.dtype)
    set_output(context, node, 1, sizes(data), ir.DataType.INT64)
    set_output(context, node, 2, [count], ir.DataType.INT64)


def _distances(context: Context, node: ir.Node) -> None:
    a, b = sizes(required(node, 0)), sizes(required(node, 1))
    known = a is not None and b is not None and len(a) == len(b) == 2
    set_output(context, node, 0, [a[0], b[0]] if known and a and b else None, required(node, 0).dtype)


def _hash(context: Context, node: ir.Node) -> None:
    dtype = ir.DataType.UINT32 if integer(node, "positive", 1) else ir.DataType.INT32
    set_output(context, node, 0, sizes(required(node, 0)), dtype)


def _real_fourier(context: Context, node: ir.Node) -> None:
    data = required(node, 0)
    shape = sizes(data)
    if shape:
        shape = [*shape[:-1], algebra.total((algebra.quotient(shape[-1], 2), 1)), 2]
    set_output(context, node, 0, shape, data.dtype)


def _inverse_real_fourier(context: Context, node: ir.Node) -> None:
    data = required(node, 0)
    shape = sizes(data)
    if shape is not None:
        shape = [*shape[:-2], algebra.product((2, algebra.difference(shape[-2], 1)))]
    set_output(context, node, 0, shape, data.dtype)


def _relative_position_bias(context: Context, node: ir.Node) -> None:
    table = required(node, 0)
    lengths = [context.elements(required(node, index)) for index in (1, 2)]
    dims = [known[0] if known and known[0] is not None else context.new_symbolic_dim() for known in lengths]
    shape = sizes(table)
    heads = shape[1] if shape is not None and len(shape) == 2 else context.new_symbolic_dim()
    set_output(context, node, 0, [1, heads, *dims], table.dtype)


RULES: Mapping[tuple[str, str], Rule] = {
    **{(_MS, name): _like(0) for name in _LIKE_FIRST.split()},
    **{("", name): _like(0) for name in _LIKE_FIRST_ONCE_STANDARD.split()},
    (_MS, "LayerNormalization"): _layer_norm,
    # ONNX Runtime's optimizer writes this one into the standard's domain
    **{(domain, "SimplifiedLayerNormalization"): _layer_norm for domain in ("", _MS)},
    (_MS, "SkipLayerNormalization"): _skip_norm,
    (_MS, "SkipSimplifiedLayerNormalization"): _skip_norm,
    (_MS, "NGramRepeatBlock"): _like(1),
    (_MS, "FusedConv"): _as("Conv", 11),
    (_MS, "Pad"): _as("Pad", 13),
    (_MS, "GridSample"): _as("GridSample", 16),
    (_MS, "ExpandDims"): _expand_dims,
    (_MS, "Unique"): _unique,
    (_MS, "CDist"): _distances,
    (_MS, "MurmurHash3"): _hash,
    (_MS, "Rfft"): _real_fourier,
    (_MS, "Irfft"): _inverse_real_fourier,
    (_MS, "RelativePositionBias"): _relative_position_bias,
}
