"""Operators of ONNX Runtime that few models have."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
from onnx_shape_inference import registry

from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.algebra import Size
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.rules.broadcasting import RULES as STANDARD
from onnxgen.graph.shapes.rules.pooling import channels_last_pool, window_count
from onnxgen.graph.shapes.rules.tools import (
    Rule,
    axis_in,
    broadcast_shapes,
    fresh,
    input_at,
    integer,
    integers,
    required,
    set_like,
    set_output,
    sizes,
)

_MS = "com.microsoft"


def _swiglu(context: Context, node: ir.Node) -> None:
    """Of two inputs, or of one that holds both side by side."""
    gate = required(node, 0)
    shape = sizes(gate)
    if shape and input_at(node, 1) is None:
        shape = [*shape[:-1], algebra.quotient(shape[-1], 2)]
    set_output(context, node, 0, shape, gate.dtype)


def _bitmask_dropout(context: Context, node: ir.Node) -> None:
    """The data, and a mask with 32 elements in each number."""
    data = required(node, 0)
    shape = sizes(data)
    set_output(context, node, 0, shape, data.dtype)
    words = (
        context.new_symbolic_dim()
        if shape is None
        else algebra.quotient(algebra.total((algebra.product(shape), 31)), 32)
    )
    set_output(context, node, 1, [words], ir.DataType.UINT32)


def _convolution_channels_last(context: Context, node: ir.Node) -> None:
    data, weights = required(node, 0), sizes(required(node, 1))
    shape = sizes(data)
    set_output(context, node, 0, None, data.dtype)
    if shape is None or weights is None or len(weights) != len(shape):
        return
    kernel = [size for size in integers(node, "kernel_shape") or weights[2:] if isinstance(size, int)]
    spatial: list[Size] = fresh(context, len(shape) - 2)
    if len(kernel) == len(spatial):
        spatial = [window_count(node, at, size, kernel) for at, size in enumerate(shape[1:-1])]
    set_output(context, node, 0, [shape[0], *spatial, weights[0]], None)


def _convolution_with_pads(context: Context, node: ir.Node) -> None:
    """ConvTransposeWithDynamicPads: the pads are an input."""
    data, weights = required(node, 0), sizes(required(node, 1))
    shape = sizes(data)
    dims = None
    if shape is not None and weights is not None:
        channels = algebra.product((weights[1], integer(node, "group", 1)))
        dims = [shape[0], channels, *fresh(context, len(shape) - 2)]
    set_output(context, node, 0, dims, data.dtype)


def _crop(context: Context, node: ir.Node) -> None:
    data, boxes = required(node, 0), sizes(required(node, 1))
    shape, target = sizes(data), context.elements(required(node, 3))
    dims = None
    if shape is not None and boxes is not None:
        size = [None, None] if target is None or len(target) != 2 else target
        dims = [boxes[0], shape[1], *(context.new_symbolic_dim() if s is None else s for s in size)]
    set_output(context, node, 0, dims, data.dtype)


def _windows(context: Context, node: ir.Node) -> None:
    """UnfoldTensor: windows of an axis on a new last axis."""
    data, size, step = required(node, 0), integer(node, "size", 1), integer(node, "step", 1)
    shape = sizes(data)
    if shape is not None:
        axis = axis_in(integer(node, "dim", -1), len(shape))
        count = algebra.total((algebra.quotient(algebra.difference(shape[axis], size), step), 1))
        shape = [*shape[:axis], count, *shape[axis + 1 :], size]
    set_output(context, node, 0, shape, data.dtype)


def _warped_path(context: Context, node: ir.Node) -> None:
    set_output(context, node, 0, [2, context.new_symbolic_dim()], ir.DataType.INT32)


def _rotated(context: Context, node: ir.Node) -> None:
    """GemmaRotaryEmbedding: query and key."""
    set_like(context, node, 0, required(node, 1))
    set_like(context, node, 1, required(node, 3))


def _is_finite(context: Context, node: ir.Node) -> None:
    set_output(context, node, 0, (), ir.DataType.BOOL)


def _routed(context: Context, node: ir.Node) -> None:
    """MoEGroupRouter: scores of every expert for every token."""
    logits, projection = required(node, 0), sizes(input_at(node, 2))
    shape = sizes(logits)
    dims = None
    if shape:
        experts = shape[-1] if input_at(node, 2) is None else projection[0] if projection else None
        dims = [algebra.product(shape[:-1]), context.new_symbolic_dim() if experts is None else experts]
    for index, dtype in enumerate((logits.dtype, ir.DataType.FLOAT, ir.DataType.FLOAT)):
        set_output(context, node, index, dims, dtype)


def _tokens(context: Context, node: ir.Node) -> None:
    """Tokenizer: pieces of each string on a new last axis."""
    shape = sizes(required(node, 0))
    dims = None if shape is None else [*shape, context.new_symbolic_dim()]
    set_output(context, node, 0, dims, ir.DataType.STRING)


def _words(context: Context, node: ir.Node) -> None:
    """WordConvEmbedding: one vector for each word of character ids."""
    shape, weights = sizes(required(node, 0)), sizes(required(node, 1))
    dims = None if not shape or not weights else [*shape[:-1], weights[0]]
    set_output(context, node, 0, dims, ir.DataType.FLOAT)


def _rows(context: Context, node: ir.Node) -> None:
    """TorchEmbedding."""
    table, indices = required(node, 0), sizes(required(node, 1))
    shape = sizes(table)
    set_output(
        context, node, 0, None if not shape or indices is None else [*indices, *shape[1:]], table.dtype
    )


def _bifurcation(context: Context, node: ir.Node) -> None:
    set_output(context, node, 0, [context.new_symbolic_dim()], ir.DataType.INT64)
    set_output(context, node, 1, (), ir.DataType.INT64)


def _complex_product(context: Context, node: ir.Node) -> None:
    shape = broadcast_shapes(sizes(required(node, 0)), sizes(required(node, 1)))
    set_output(context, node, 0, shape, required(node, 0).dtype)


def _gather_nd(context: Context, node: ir.Node) -> None:
    rule = registry.get("", "GatherND", 11)
    assert rule is not None
    rule(context, node)


RULES: Mapping[tuple[str, str], Rule] = {
    (_MS, "SwiGLU"): _swiglu,
    (_MS, "BitmaskDropout"): _bitmask_dropout,
    (_MS, "BitmaskBiasDropout"): _bitmask_dropout,
    (_MS, "NhwcConv"): _convolution_channels_last,
    (_MS, "NhwcFusedConv"): _convolution_channels_last,
    (_MS, "NhwcMaxPool"): channels_last_pool,
    (_MS, "ConvTransposeWithDynamicPads"): _convolution_with_pads,
    (_MS, "CropAndResize"): _crop,
    (_MS, "UnfoldTensor"): _windows,
    (_MS, "DynamicTimeWarping"): _warped_path,
    (_MS, "GemmaRotaryEmbedding"): _rotated,
    (_MS, "IsAllFinite"): _is_finite,
    (_MS, "MoEGroupRouter"): _routed,
    (_MS, "Tokenizer"): _tokens,
    (_MS, "WordConvEmbedding"): _words,
    (_MS, "TorchEmbedding"): _rows,
    (_MS, "BifurcationDetector"): _bifurcation,
    (_MS, "ComplexMul"): _complex_product,
    (_MS, "ComplexMulConj"): _complex_product,
    (_MS, "GatherND"): _gather_nd,
    (_MS, "Range"): STANDARD["", "Range"],
    (_MS, "SampleOp"): lambda context, node: set_like(context, node, 0, required(node, 0)),
}
