"""Projections: one matrix multiplication, whatever its weights are stored in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from onnxgen.builder.emitter.context import Emission
from onnxgen.builder.emitter.graph_builder import CONTRIB
from onnxgen.builder.formats import ZeroPoints, block_format
from onnxgen.builder.matrices import Rows
from onnxgen.builder.weights import BlockQuantized

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class QuantizedWeights:
    """Blocks that are stored and part of the graph.

    Attributes:
        bits: 4 or 8.
        block_size: Neighbouring weights of a row that share a scale.
        in_features: Columns of the matrix before padding.
        out_features: Rows of the matrix.
        codes: uint8 ``[out_features, blocks, block_size * bits / 8]``.
        scales: ``[out_features, blocks]`` in the activations' type.
        zero_points: uint8 packed, or of the scales' type; None for the symmetric form.
    """

    bits: int
    block_size: int
    in_features: int
    out_features: int
    codes: ir.Value
    scales: ir.Value
    zero_points: ir.Value | None

    @property
    def kind(self) -> ZeroPoints:
        """What kind of zero points the blocks have."""
        if self.zero_points is None:
            return ZeroPoints.SYMMETRIC
        return ZeroPoints.FLOAT if self.zero_points.dtype == self.scales.dtype else ZeroPoints.INTEGER


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


def store_blocks(emission: Emission, path: str, blocks: BlockQuantized) -> QuantizedWeights:
    """Store a quantized matrix and make its initializers."""
    import onnx_ir as ir

    graph, data = emission.graph, emission.data
    name = weight_name(path)
    codes = data.append(f"{name}.qweight", [blocks.codes], dtype=ir.DataType.UINT8, shape=blocks.codes.shape)
    scales = data.append(
        f"{name}.scales",
        [blocks.scales.astype(emission.activation)],
        dtype=graph.activation,
        shape=blocks.scales.shape,
    )
    points = None
    if blocks.zero_points is not None:
        packed = blocks.zero_points.dtype == np.uint8
        values = blocks.zero_points if packed else blocks.zero_points.astype(emission.activation)
        points = data.append(
            f"{name}.qzeros",
            [values],
            dtype=ir.DataType.UINT8 if packed else graph.activation,
            shape=values.shape,
        )
    weights = QuantizedWeights(
        bits=blocks.bits,
        block_size=blocks.block_size,
        in_features=blocks.in_features,
        out_features=blocks.codes.shape[0],
        codes=graph.weight(f"{name}.qweight", codes),
        scales=graph.weight(f"{name}.scales", scales),
        zero_points=None if points is None else graph.weight(f"{name}.qzeros", points),
    )
    emission.formats[block_format(weights.bits, weights.block_size, weights.kind)] += 1
    return weights


def multiply_blocks(
    emission: Emission, path: str, x: ir.Value, weights: QuantizedWeights, bias: ir.Value | None = None
) -> ir.Value:
    """``x @ weights.T + bias`` over quantized blocks, ``[batch, seq, out_features]``."""
    inputs = [x, weights.codes, weights.scales, weights.zero_points, None, bias]
    while inputs[-1] is None:
        inputs.pop()
    level = emission.options.accuracy_level
    assert level is not None, "settled before the emission begins"
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
        accuracy_level=level,
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
