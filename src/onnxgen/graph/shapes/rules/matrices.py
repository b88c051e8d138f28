"""Matrix products of the standard and of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as ir

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.shapes.algebra import Size
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.rules.tools import (
    Rule,
    broadcast_shapes,
    input_at,
    integer,
    required,
    set_output,
    sizes,
)

_MS = "com.microsoft"


def matmul_shape(a: list[Size] | None, b: list[Size] | None) -> list[Size] | None:
    """``numpy.matmul``'s shape; None where one is not known."""
    if a is None or b is None:
        return None
    left, right = ([1, *a] if len(a) == 1 else a), ([*b, 1] if len(b) == 1 else b)
    if isinstance(left[-1], int) and isinstance(right[-2], int) and left[-1] != right[-2]:
        raise InvalidGraphError(f"matrices of {a} and {b} do not fit together")
    batch = broadcast_shapes(left[:-2], right[:-2])
    assert batch is not None
    return batch + ([left[-2]] if len(a) > 1 else []) + ([right[-1]] if len(b) > 1 else [])


def _transposed(
    shape: list[Size] | None, node: ir.Node, last: str, batch: str | None = None
) -> list[Size] | None:
    if shape is None or len(shape) < 2:
        return shape
    if batch and integer(node, batch, 0):  # the first axis moves behind the others
        shape = [*shape[1:-1], shape[0], shape[-1]]
    return [*shape[:-2], shape[-1], shape[-2]] if integer(node, last, 0) else shape


def _matmul(at: int, dtype: Callable[[ir.Node], ir.DataType | None]) -> Rule:
    """A product of inputs 0 and ``at``."""

    def rule(context: Context, node: ir.Node) -> None:
        a = _transposed(sizes(required(node, 0)), node, "transA", "transBatchA")
        b = _transposed(sizes(required(node, at)), node, "transB", "transBatchB")
        set_output(context, node, 0, matmul_shape(a, b), dtype(node))

    return rule


def _gemm(at: int, dtype: Callable[[ir.Node], ir.DataType | None]) -> Rule:
    def rule(context: Context, node: ir.Node) -> None:
        a = _transposed(sizes(required(node, 0)), node, "transA")
        b = _transposed(sizes(required(node, at)), node, "transB")
        set_output(context, node, 0, None if a is None or b is None else [a[0], b[1]], dtype(node))

    return rule


def _by_block(context: Context, node: ir.Node) -> None:
    """MatMulNBits, MatMulBnb4: the weight's columns are an attribute."""
    data = required(node, 0)
    shape = sizes(data)
    set_output(context, node, 0, None if not shape else [*shape[:-1], integer(node, "N", 0)], data.dtype)


def _first(node: ir.Node) -> ir.DataType | None:
    return required(node, 0).dtype


def _is(dtype: ir.DataType) -> Callable[[ir.Node], ir.DataType | None]:
    return lambda node: dtype


def _of(index: int, otherwise: ir.DataType | None = None) -> Callable[[ir.Node], ir.DataType | None]:
    def dtype(node: ir.Node) -> ir.DataType | None:
        value = input_at(node, index)
        return otherwise if value is None else value.dtype

    return dtype


RULES: Mapping[tuple[str, str], Rule] = {
    ("", "MatMul"): _matmul(1, _first),
    ("", "Gemm"): _gemm(1, _first),
    ("", "MatMulInteger"): _matmul(1, _is(ir.DataType.INT32)),
    ("", "QLinearMatMul"): _matmul(3, _of(7)),
    (_MS, "FusedMatMul"): _matmul(1, _first),
    (_MS, "TransposeMatMul"): _matmul(1, _first),
    (_MS, "FusedMatMulActivation"): _matmul(1, _first),
    (_MS, "FusedGemm"): _gemm(1, _first),
    (_MS, "GemmFastGelu"): _matmul(1, _first),
    (_MS, "MatMulInteger16"): _matmul(1, _is(ir.DataType.INT32)),
    (_MS, "MatMulIntegerToFloat"): _matmul(1, _of(2)),
    (_MS, "DynamicQuantizeMatMul"): _matmul(1, _is(ir.DataType.FLOAT)),
    (_MS, "QGemm"): _gemm(3, _of(8, ir.DataType.FLOAT)),
    (_MS, "MatMulNBits"): _by_block,
    (_MS, "MatMulBnb4"): _by_block,
    (_MS, "MatMulFpQ4"): _by_block,
}
