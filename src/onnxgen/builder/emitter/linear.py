"""Projections: one matrix multiplication, whatever its weights are stored in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxgen.builder.emitter.context import Emission
from onnxgen.builder.emitter.graph_builder import CONTRIB
from onnxgen.builder.matrices import Rows
from onnxgen.builder.weights import BlockQuantized

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class QuantizedWeights:
    """Blocks that are stored and part of the graph.

    Attributes:
        blocks: Bits, block size and ``in_features``; its arrays are empty.
        out_features: Rows of the matrix.
        codes: uint8 ``[out_features, blocks, block_size * bits / 8]``.
        scales: ``[out_features, blocks]`` in the activations' type.
        zero_points: uint8 packed, or of the scales' type; None for the symmetric form.
        correction: ``[blocks, out_features]``, what a block's sum of inputs adds to the symmetric product
            to make up for float zero points; None where the operator takes the zero points itself.
    """

    bits: int
    block_size: int
    in_features: int
    out_features: int
    codes: ir.Value
    scales: ir.Value
    zero_points: ir.Value | None
    correction: ir.Value | None = None

    @property
    def float_zero_points(self) -> bool:
        """Whether zero points are floating point."""
        return self.zero_points is not None and self.zero_points.dtype == self.scales.dtype


def project(
    emission: Emission,
    path: str,
    x: ir.Value,
    parts: Sequence[Rows],
    columns: int,
    *,
    biases: Sequence[str] = (),
    part_paths: Sequence[str] = (),
) -> list[ir.Value]:
    """Multiply by the rows of all parts at once, or by each part where their formats differ.

    Args:
        emission: The emission in progress.
        path: Where the projection stands, such as ``/model/layers.0/mlp/down_proj``.
        x: Input ``[batch, seq, columns]``.
        parts: Rows of the matrix.
        columns: Its columns.
        biases: Names of the biases, one for each part, or none at all.
        part_paths: Where each part stands when it is multiplied by alone.

    Returns:
        One value ``[batch, seq, rows]`` of all parts, or one for each part.
    """
    bits = emission.options.bits
    bias_parts = [
        emission.matrices.vector(name, part.total) for name, part in zip(biases, parts, strict=bool(biases))
    ]
    if bits is None:
        bias = _bias(emission, path, bias_parts)
        return [_multiply_float(emission, path, x, parts, columns, bias)]
    stored = emission.matrices.blocks(parts, columns, bits=bits)
    if len(stored) == 1:
        bias = _bias(emission, path, bias_parts)
        weights = store_blocks(emission, path, stored.pop())
        return [multiply_blocks(emission, path, x, weights, bias)]
    results: list[ir.Value] = []
    assert len(part_paths) == len(stored)
    stored.reverse()  # taken from the end, so that each part is dropped once it is written
    for index, own in enumerate(part_paths):
        bias = _bias(emission, own, bias_parts[index : index + 1])
        weights = store_blocks(emission, own, stored.pop())
        results.append(multiply_blocks(emission, own, x, weights, bias))
    return results


def store_blocks(
    emission: Emission, path: str, blocks: BlockQuantized, *, looked_up: bool = False
) -> QuantizedWeights:
    """Store a quantized matrix and make its initializers.

    Args:
        emission: The emission in progress.
        path: Where the matrix stands.
        blocks: The matrix.
        looked_up: Whether rows of it are looked up too, which takes zero points of any kind.
    """
    import onnx_ir as ir

    graph = emission.graph
    name = weight_name(path)
    points = blocks.zero_points
    packed = points is not None and points.dtype == np.uint8
    corrects = _corrects(emission, blocks)
    kind = "symmetric" if points is None else "zero points" if packed else "float zero points"
    kind += ", corrected" if corrects else ""
    emission.formats[f"int{blocks.bits} block {blocks.block_size} {kind}"] += 1

    def stored(suffix: str, values: np.ndarray[Any, Any], dtype: ir.DataType) -> ir.Value:
        array = values.astype(dtype.numpy(), copy=False)
        tensor = emission.data.append(f"{name}.{suffix}", [array], dtype=dtype, shape=array.shape)
        return graph.weight(f"{name}.{suffix}", tensor)

    codes = stored("qweight", blocks.codes, ir.DataType.UINT8)
    scales = stored("scales", blocks.scales, graph.activation)
    correction = zero_points = None
    if points is not None and corrects:
        middle = np.float32(1 << (blocks.bits - 1))
        correction = stored("correction", ((middle - points) * blocks.scales).T, graph.activation)
    if points is not None and (correction is None or looked_up):
        zero_points = stored("qzeros", points, ir.DataType.UINT8 if packed else graph.activation)
    return QuantizedWeights(
        bits=blocks.bits,
        block_size=blocks.block_size,
        in_features=blocks.in_features,
        out_features=blocks.codes.shape[0],
        codes=codes,
        scales=scales,
        zero_points=zero_points,
        correction=correction,
    )


def multiply_blocks(
    emission: Emission, path: str, x: ir.Value, weights: QuantizedWeights, bias: ir.Value | None = None
) -> ir.Value:
    """``x @ weights.T + bias`` over quantized blocks, ``[batch, seq, out_features]``."""
    if weights.correction is not None:
        return _corrected(emission, path, x, weights, bias)
    return _multiply_nbits(emission, path, x, weights, weights.zero_points, bias)


def _corrected(
    emission: Emission, path: str, x: ir.Value, weights: QuantizedWeights, bias: ir.Value | None
) -> ir.Value:
    """The product with float zero points, from the symmetric one.

    ``sum (code - point) * scale * x = sum (code - middle) * scale * x + sum over blocks of
    (middle - point) * scale * (sum of x in the block)``
    """
    assert weights.correction is not None
    graph = emission.graph
    product = _multiply_nbits(emission, path, x, weights, None, bias)
    sums = emission.block_sums.get((x.name, weights.block_size))
    if sums is None:
        by_block = graph.node(
            f"{path}/blocks", "Reshape", [x, graph.integers([0, 0, -1, weights.block_size])]
        )
        sums = graph.node(f"{path}/blocks", "ReduceSum", [by_block, graph.integers([-1])], keepdims=0)
        emission.block_sums[x.name, weights.block_size] = sums
    shape = emission.stream(weights.out_features)
    correction = graph.node(f"{path}/correction", "MatMul", [sums, weights.correction], shape=shape)
    return graph.node(f"{path}/correction", "Add", [product, correction], shape=shape)


def _multiply_nbits(
    emission: Emission,
    path: str,
    x: ir.Value,
    weights: QuantizedWeights,
    zero_points: ir.Value | None,
    bias: ir.Value | None,
) -> ir.Value:
    inputs = [x, weights.codes, weights.scales, zero_points, None, bias]
    while inputs[-1] is None:
        inputs.pop()
    return emission.graph.node(
        path,
        "MatMulNBits",
        inputs,
        shape=emission.stream(weights.out_features),
        domain=CONTRIB,
        K=weights.in_features,
        N=weights.out_features,
        bits=weights.bits,
        block_size=weights.block_size,
        accuracy_level=emission.options.accuracy_level,
    )


def _corrects(emission: Emission, blocks: BlockQuantized) -> bool:
    # Sums over blocks need whole ones.
    return (
        emission.options.float_zero_points == "correction"
        and blocks.zero_points is not None
        and blocks.zero_points.dtype != np.uint8
        and blocks.in_features % blocks.block_size == 0
    )


def storage_type(emission: Emission) -> ir.DataType:
    """Element type that unquantized matrices are stored in."""
    import onnx_ir as ir

    return {"fp16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}.get(
        emission.options.precision, ir.DataType.FLOAT
    )


def in_activation_type(emission: Emission, path: str, value: ir.Value) -> ir.Value:
    """The value, cast where it is stored in another type than activations have."""
    graph = emission.graph
    if value.dtype == graph.activation:
        return value
    return graph.node(path, "Cast", [value], to=graph.activation)


def weight_name(path: str) -> str:
    """Name of the weights of a projection at a path."""
    return path.strip("/").replace("/", ".") + ".MatMul"


def _multiply_float(
    emission: Emission,
    path: str,
    x: ir.Value,
    parts: Sequence[Rows],
    columns: int,
    bias: ir.Value | None,
) -> ir.Value:
    graph = emission.graph
    dtype = storage_type(emission)
    rows = sum(part.count for part in parts)
    name = f"{weight_name(path)}.weight"
    tensor = emission.data.append(
        name,
        emission.matrices.column_pieces(parts, columns, dtype.numpy()),
        dtype=dtype,
        shape=(columns, rows),
    )
    emission.formats[dtype.name.lower()] += 1
    weight = in_activation_type(emission, path, graph.weight(name, tensor))
    product = graph.node(path, "MatMul", [x, weight], shape=emission.stream(rows))
    if bias is None:
        return product
    return graph.node(path, "Add", [product, bias], shape=emission.stream(rows))


def _bias(
    emission: Emission, path: str, parts: Sequence[np.ndarray[tuple[int], np.dtype[np.float32]]]
) -> ir.Value | None:
    if not parts:
        return None
    return emission.vector(f"{weight_name(path)}.bias", np.concatenate(parts))
