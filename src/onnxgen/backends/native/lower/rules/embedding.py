"""Token ids to rows of a table, in floats or in quantized blocks; and the last token's row of a prompt."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnxgen.backends.native.lower.meanings import Constant, DeclineError, Meaning, RowsOf, TokenIds
from onnxgen.backends.native.lower.rule import MICROSOFT, Inputs, RuleTable, at
from onnxgen.backends.native.lower.rules.selection import selected_last
from onnxgen.backends.native.lower.state import Lowering, describe, floats, integer, matrix
from onnxgen.backends.native.plan import BlockMatrix, Family, FloatMatrix

TABLE = RuleTable()


@TABLE.operator("Gather")
def gather(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """Rows of a table of floats, or the rows of the last tokens."""
    data, ids = at(inputs, 0), at(inputs, 1)
    if isinstance(data, RowsOf):
        return [selected_last(lowering, node, data, ids, axis=integer(node, "axis"))]
    if not isinstance(ids, TokenIds) or not isinstance(data, Constant):
        raise DeclineError(f"it takes {describe(ids)} of {describe(data)}")
    if integer(node, "axis") != 0:
        raise DeclineError("token ids look up columns")
    return [_embed(lowering, node, ids, matrix(data, "the table", outputs_first=True))]


@TABLE.operator("GatherBlockQuantized", MICROSOFT)
def gather_blocks(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """Rows of a table in blocks."""
    codes, ids, zeros = at(inputs, 0), at(inputs, 1), at(inputs, 3)
    scales = floats(at(inputs, 2), "the scales")
    bits, block = integer(node, "bits", 4), integer(node, "block_size", 128)
    if not isinstance(ids, TokenIds) or not isinstance(codes, Constant):
        raise DeclineError(f"it takes {describe(ids)} of {describe(codes)}")
    if codes.array.ndim != 2 or codes.array.dtype != np.uint8 or codes.transposed or scales.transposed:
        raise DeclineError(f"the table is {describe(codes)}; known are matrices of uint8")
    if integer(node, "gather_axis") != 0 or integer(node, "quantize_axis", 1) != 1:
        raise DeclineError("the table is not looked up by rows that are quantized along the columns")
    if zeros is not None and not isinstance(zeros, Constant):
        raise DeclineError(f"the zero points are {describe(zeros)}")
    rows, num_bytes = codes.array.shape
    columns = num_bytes * 8 // bits
    if scales.array.shape != (rows, -(-columns // block)):
        raise DeclineError(f"scales of shape {scales.array.shape} for {rows} rows of {columns}")
    part = BlockMatrix(
        rows, columns, bits, block, codes.stored, scales.stored, None if zeros is None else zeros.stored
    )
    return [_embed(lowering, node, ids, part)]


def _embed(lowering: Lowering, node: ir.Node, ids: TokenIds, part: FloatMatrix | BlockMatrix) -> RowsOf:
    name = next((v.name for v in node.inputs if v is not None and v.name), "embedding")
    assert all(math.prod(shape) == s.new for shape, s in zip(ids.shapes, lowering.samples, strict=True))
    shapes = tuple((*shape, part.columns) for shape in ids.shapes)
    return lowering.emit(
        node, Family.EMBED, width=part.columns, shapes=shapes, weights={"table": (part, name)}, factor=1.0
    )
