"""What a decoder must do for each token, from its graph: the least bytes and operations of any implementation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

# Operators that multiply by a stored matrix, and the input that it is.
_PRODUCTS = {
    "MatMul": 1,
    "Gemm": 1,
    "MatMulInteger": 1,
    "DynamicQuantizeMatMul": 1,
    "MatMulNBits": 1,
}
# Operators between a stored matrix and its product.
_CARRIERS = frozenset({"Cast", "Transpose", "DequantizeLinear", "Reshape", "Identity"})
_QUANTIZED = frozenset({"MatMulInteger", "DynamicQuantizeMatMul", "MatMulNBits"})
_EXPERTS = frozenset({"QMoE", "MoE"})


@dataclass(frozen=True, slots=True)
class DecoderWork:
    """Work of the matrices of a decoder, which is nearly all work at short contexts.

    Attributes:
        weight_bytes: Size of the matrices as they are stored, with scales and zero points; a decode step reads
            each once, however many sequences take part.
        token_operations: Multiplications and additions for each token, without the head.
        head_operations: The same for each row of logits.
        is_quantized: Whether the matrices are integers, so that their arithmetic can be one of bytes.
    """

    weight_bytes: int
    token_operations: int
    head_operations: int
    is_quantized: bool

    def least_seconds(self, *, tokens: int, rows: int, bytes_per_s: float, operations_per_s: float) -> float:
        """The least time of a step: memory or arithmetic is the bound.

        Args:
            tokens: Packed tokens of the step.
            rows: Rows whose logits are wanted.
            bytes_per_s: How fast weights are read.
            operations_per_s: Arithmetic peak, of the kind that `is_quantized` says.
        """
        operations = tokens * self.token_operations + rows * self.head_operations
        return max(self.weight_bytes / bytes_per_s, operations / operations_per_s)


def decoder_work(model: ir.Model, *, vocab_size: int) -> DecoderWork | None:
    """Count the work of a decoder's matrices.

    Args:
        model: The graph; weights are not read, only described.
        vocab_size: The head is the product with a matrix at least so long on one side.

    Returns:
        None where the graph has no stored matrices, or chooses among experts: then the data decide.
    """
    weights: dict[str, int] = {}
    token_operations = head_operations = 0
    is_quantized = False
    for node in model.graph:
        if node.op_type in _EXPERTS:
            return None
        stored = list(_stored(node))
        if not stored:
            continue
        weights |= {value.name or "": value.const_value.nbytes for value in stored if value.const_value}
        is_quantized |= node.op_type in _QUANTIZED
        dims = _dims(node, stored[0])
        if max(dims, default=1) >= vocab_size:
            head_operations += 2 * math.prod(dims)
        else:
            token_operations += 2 * math.prod(dims)
    if not weights:
        return None
    return DecoderWork(sum(weights.values()), token_operations, head_operations, is_quantized)


def _stored(node: ir.Node) -> Iterator[ir.Value]:
    """The stored matrix that a node multiplies by and what belongs to it; nothing if it multiplies by none."""
    at = _PRODUCTS.get(node.op_type)
    if at is None or len(node.inputs) <= at or not any(_origins(node.inputs[at])):
        return
    for value in node.inputs[at:]:
        yield from _origins(value)


def _origins(value: ir.Value | None) -> Iterator[ir.Value]:
    """The initializers that a value is made of."""
    if value is None:
        return
    if value.is_initializer():
        yield value
        return
    producer = value.producer()
    if producer is not None and producer.op_type in _CARRIERS:
        for source in producer.inputs:
            yield from _origins(source)


def _dims(node: ir.Node, matrix: ir.Value) -> tuple[int, ...]:
    """Sizes of the matrix, whichever way round it is stored."""
    if node.op_type == "MatMulNBits":
        return node.attributes["N"].as_int(), node.attributes["K"].as_int()
    assert matrix.shape is not None, "an initializer has a shape"
    return tuple(matrix.shape.numpy())
