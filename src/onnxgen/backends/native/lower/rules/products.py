"""Products with constant matrices, in floats or in quantized blocks."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxgen.backends.native.lower.meanings import Constant, DeclineError, Meaning, RowsOf
from onnxgen.backends.native.lower.rule import MICROSOFT, Inputs, RuleTable, at
from onnxgen.backends.native.lower.state import (
    Lowering,
    describe,
    floats,
    integer,
    matrix,
    real,
    vector,
    whole_rows,
)
from onnxgen.backends.native.plan import BlockMatrix, Family, FloatMatrix, Part

TABLE = RuleTable()
FLOAT_LEVEL = 0
"""The accuracy level of a product that says none."""


@TABLE.operator("MatMul")
def matmul(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """``x @ w``."""
    return [_product(lowering, node, inputs, matrix(at(inputs, 1), "the matrix", outputs_first=False))]


@TABLE.operator("FusedMatMul", MICROSOFT)
def fused_matmul(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """``x @ w`` or ``x @ w.T``."""
    if integer(node, "transA") or integer(node, "transBatchA") or integer(node, "transBatchB"):
        raise DeclineError("activations are transposed")
    if real(node, "alpha", 1.0) != 1.0:
        raise DeclineError(f"the product is scaled by alpha {real(node, 'alpha')}")
    first = bool(integer(node, "transB"))
    return [_product(lowering, node, inputs, matrix(at(inputs, 1), "the matrix", outputs_first=first))]


@TABLE.operator("Gemm")
def gemm(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """``x @ w + c`` or ``x @ w.T + c``."""
    if integer(node, "transA"):
        raise DeclineError("activations are transposed")
    if real(node, "alpha", 1.0) != 1.0 or real(node, "beta", 1.0) != 1.0:
        raise DeclineError("alpha and beta other than 1")
    part = matrix(at(inputs, 1), "the matrix", outputs_first=bool(integer(node, "transB")))
    return [_product(lowering, node, inputs, part, bias=at(inputs, 2), bias_index=2)]


@TABLE.operator("MatMulNBits", MICROSOFT)
def matmul_nbits(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """``x @ w.T [+ bias]`` for a matrix in blocks."""
    n, k = integer(node, "N"), integer(node, "K")
    bits, block = integer(node, "bits", 4), integer(node, "block_size")
    codes, zeros = at(inputs, 1), at(inputs, 3)
    scales = floats(at(inputs, 2), "the scales")
    if at(inputs, 4) is not None:
        raise DeclineError("columns are permuted (g_idx)")
    if integer(node, "weight_prepacked"):
        raise DeclineError("weights are packed for a GPU")
    if not isinstance(codes, Constant) or codes.array.dtype != np.uint8:
        raise DeclineError(f"the matrix is {describe(codes)}, not constant bytes")
    if zeros is not None and not isinstance(zeros, Constant):
        raise DeclineError(f"the zero points are {describe(zeros)}, not constant")
    blocks = -(-k // block)
    if codes.array.size != n * blocks * (block * bits // 8) or scales.array.size != n * blocks:
        raise DeclineError(
            f"{codes.array.size} bytes and {scales.array.size} scales do not fit {n} rows of {k}"
        )
    part = BlockMatrix(
        n, k, bits, block, codes.stored, scales.stored, None if zeros is None else zeros.stored
    )
    level = integer(node, "accuracy_level", FLOAT_LEVEL)
    return [_product(lowering, node, inputs, part, bias=at(inputs, 5), bias_index=5, level=level)]


def _product(
    lowering: Lowering,
    node: ir.Node,
    inputs: Inputs,
    part: FloatMatrix | BlockMatrix,
    *,
    bias: Meaning | None = None,
    bias_index: int = 0,
    level: int = FLOAT_LEVEL,
) -> RowsOf:
    x = whole_rows(at(inputs, 0), "the input")
    if x.last != part.columns:
        raise DeclineError(f"rows of {x.last} times a matrix of {part.columns} columns")
    weights: dict[str, tuple[Part, str]] = {"matrix": (part, _name(node, 1))}
    if bias is not None:
        weights["bias"] = (vector(bias, "the bias", part.rows), _name(node, bias_index))
    return lowering.emit(
        node, Family.PRODUCT, x, width=part.rows, reads={"x": x}, weights=weights, level=level, epilogue=""
    )


def _name(node: ir.Node, index: int) -> str:
    value = node.inputs[index]
    return (value.name if value is not None else None) or "matrix"
