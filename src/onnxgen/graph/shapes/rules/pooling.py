"""Pooling with windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.algebra import Size
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.rules.tools import Rule, integer, integers, required, set_output, sizes, text

_MS = "com.microsoft"


def _pool(context: Context, node: ir.Node) -> None:
    data, kernel = required(node, 0), integers(node, "kernel_shape")
    shape = sizes(data)
    set_output(context, node, 0, None, data.dtype)
    set_output(context, node, 1, None, ir.DataType.INT64)
    if shape is None:
        return
    if not kernel or len(kernel) != len(shape) - 2:
        raise InvalidGraphError(f"kernel_shape {kernel} does not fit an input of rank {len(shape)}")
    spatial = [window_count(node, at, size, kernel) for at, size in enumerate(shape[2:])]
    for index in range(len(node.outputs)):
        set_output(context, node, index, [*shape[:2], *spatial], None)


def _quantized_pool(context: Context, node: ir.Node) -> None:
    """QLinearAveragePool and QLinearGlobalAveragePool of ONNX Runtime, with channels in front or at the end."""
    _pool_one(context, node, last=bool(integer(node, "channels_last", 0)))


def channels_last_pool(context: Context, node: ir.Node) -> None:
    """A pool of ``[batch, *size, channels]``; over everything where it has no kernel shape."""
    _pool_one(context, node, last=True)


def _pool_one(context: Context, node: ir.Node, *, last: bool) -> None:
    data = required(node, 0)
    shape, kernel = sizes(data), integers(node, "kernel_shape")
    if shape is None or len(shape) < 3:
        set_output(context, node, 0, None, data.dtype)
        return
    spatial = shape[1:-1] if last else shape[2:]
    spatial = [
        1 if kernel is None else window_count(node, at, size, kernel) for at, size in enumerate(spatial)
    ]
    dims = [shape[0], *spatial, shape[-1]] if last else [*shape[:2], *spatial]
    set_output(context, node, 0, dims, data.dtype)


def window_count(node: ir.Node, at: int, size: Size, kernel: Sequence[int]) -> Size:
    """How many windows of those sizes fit along one of the spatial axes.

    Raises:
        InvalidGraphError: The stride is not positive.
    """
    count = len(kernel)
    stride = (integers(node, "strides") or [1] * count)[at]
    dilation = (integers(node, "dilations") or [1] * count)[at]
    if stride < 1:
        raise InvalidGraphError(f"stride {stride} is not positive")
    how = text(node, "auto_pad", "NOTSET")
    if how.startswith("SAME"):
        return _rounded_up(size, stride)
    pads = integers(node, "pads") if how == "NOTSET" else None
    pads = pads or [0] * 2 * count
    begin, end = pads[at], pads[count + at]
    room = algebra.total((size, begin + end - dilation * (kernel[at] - 1) - 1))
    if isinstance(room, int) and -stride < room < 0 and size != 0:
        return 1  # what does not fit by less than a stride is one window, as onnx's inference and ONNX Runtime have it
    if not integer(node, "ceil_mode", 0):
        return algebra.total((algebra.quotient(room, stride), 1))
    # a last window that would begin in the padding behind the data is left out
    fitting = algebra.total((_rounded_up(room, stride), 1))
    return algebra.smallest(fitting, _rounded_up(algebra.total((size, begin)), stride))


def _rounded_up(size: Size, by: int) -> Size:
    return algebra.quotient(algebra.total((size, by - 1)), by)


RULES: Mapping[tuple[str, str], Rule] = {
    **{("", name): _pool for name in ("AveragePool", "MaxPool", "LpPool")},
    (_MS, "MaxpoolWithMask"): _pool,
    (_MS, "QLinearAveragePool"): _quantized_pool,
    (_MS, "QLinearGlobalAveragePool"): _quantized_pool,
}
