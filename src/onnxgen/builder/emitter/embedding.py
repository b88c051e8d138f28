"""Token ids to hidden states, from a table in floats or in quantized blocks that the head may share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnxgen.builder.emitter.context import BATCH, SEQUENCE, Emission
from onnxgen.builder.emitter.graph_builder import CONTRIB
from onnxgen.builder.emitter.linear import (
    QuantizedWeights,
    in_activation_type,
    storage_type,
    store_blocks,
)
from onnxgen.builder.formats import ZeroPoints
from onnxgen.builder.matrices import Rows
from onnxgen.builder.spec import EMBEDDING

if TYPE_CHECKING:
    import onnx_ir as ir

_PATH = "/model/embed_tokens"


@dataclass(frozen=True, slots=True)
class Embedding:
    """The embedding.

    Attributes:
        hidden: Hidden states ``[batch, seq, hidden]``.
        table: The stored table ``[vocab, hidden]``, for a head that shares it: a value, or blocks.
    """

    hidden: ir.Value
    table: ir.Value | QuantizedWeights


def embed(emission: Emission) -> Embedding:
    """Declare ``input_ids``, store the table and look the ids up."""
    import onnx_ir as ir

    ids = emission.graph.input("input_ids", ir.DataType.INT64, [BATCH, SEQUENCE])
    looked_up = _from_floats(emission, ids) if emission.options.bits is None else _from_blocks(emission, ids)
    scale = emission.spec.embedding_scale
    if scale is None:
        return looked_up
    hidden = emission.graph.node(
        _PATH,
        "Mul",
        [looked_up.hidden, emission.graph.scalar(scale)],
        shape=emission.stream(emission.spec.hidden),
    )
    return Embedding(hidden, looked_up.table)


def _rows(emission: Emission) -> list[Rows]:
    vocab = emission.spec.vocab
    return [Rows(EMBEDDING, 0, vocab, vocab)]


def _from_floats(emission: Emission, ids: ir.Value) -> Embedding:
    spec = emission.spec
    dtype = storage_type(emission)
    tensor = emission.data.append(
        EMBEDDING,
        emission.matrices.row_pieces(_rows(emission), spec.hidden, dtype.numpy()),
        dtype=dtype,
        shape=(spec.vocab, spec.hidden),
    )
    emission.formats[dtype.name.lower()] += 1
    table = emission.graph.weight(EMBEDDING, tensor)
    hidden = emission.graph.node(
        _PATH, "Gather", [table, ids], dtype=dtype, shape=emission.stream(spec.hidden), axis=0
    )
    return Embedding(in_activation_type(emission, _PATH, hidden), table)


def _from_blocks(emission: Emission, ids: ir.Value) -> Embedding:
    (blocks,) = emission.matrices.blocks(
        _rows(emission), emission.spec.hidden, bits=emission.options.head_bits
    )
    weights = store_blocks(emission, _PATH, blocks)
    if weights.kind is ZeroPoints.FLOAT:
        return Embedding(_dequantize_rows(emission, ids, weights), weights)
    return Embedding(_gather_blocks(emission, ids, weights), weights)


def _gather_blocks(emission: Emission, ids: ir.Value, weights: QuantizedWeights) -> ir.Value:
    """Look up with `GatherBlockQuantized`, whose codes are the head's under a flat shape."""
    import onnx_ir as ir

    graph = emission.graph
    stored = weights.codes.const_value
    assert isinstance(stored, ir.ExternalTensor) and stored.offset is not None
    vocab, blocks, block_bytes = (int(size) for size in stored.shape.numpy())
    # The same bytes under a second shape: both operators read them in place, and none needs a Reshape
    # that would be folded into a copy.
    name = f"{stored.name}.flat"
    flat = emission.data.alias(
        name, start=stored.offset, dtype=stored.dtype, shape=(vocab, blocks * block_bytes)
    )
    inputs = [graph.weight(name, flat), ids, weights.scales]
    if weights.zero_points is not None:
        inputs.append(weights.zero_points)
    padded = blocks * weights.block_size
    rows = graph.node(
        _PATH,
        "GatherBlockQuantized",
        inputs,
        shape=emission.stream(padded),
        domain=CONTRIB,
        bits=weights.bits,
        block_size=weights.block_size,
        gather_axis=0,
        quantize_axis=1,
    )
    return _without_padding(emission, rows, padded)


def _dequantize_rows(emission: Emission, ids: ir.Value, weights: QuantizedWeights) -> ir.Value:
    """Look up rows of 4-bit codes with float zero points, which `GatherBlockQuantized` does not take."""
    import onnx_ir as ir

    graph = emission.graph
    assert weights.zero_points is not None and weights.bits == 4
    uint8 = ir.DataType.UINT8
    codes = graph.node(f"{_PATH}/codes", "Gather", [weights.codes, ids], dtype=uint8, axis=0)
    scales = graph.node(f"{_PATH}/scales", "Gather", [weights.scales, ids], axis=0)
    points = graph.node(f"{_PATH}/zero_points", "Gather", [weights.zero_points, ids], axis=0)
    last = graph.integers([-1])
    low = graph.node(f"{_PATH}/low", "BitwiseAnd", [codes, graph.byte(15)], dtype=uint8)
    high = graph.node(f"{_PATH}/high", "BitShift", [codes, graph.byte(4)], dtype=uint8, direction="RIGHT")
    halves = [
        graph.node(f"{_PATH}/{part}", "Unsqueeze", [value, last], dtype=uint8)
        for part, value in (("low", low), ("high", high))
    ]
    pairs = graph.node(f"{_PATH}/codes", "Concat", halves, dtype=uint8, axis=-1)
    shape = graph.integers([0, 0, -1, weights.block_size])
    flat = graph.node(f"{_PATH}/codes", "Reshape", [pairs, shape], dtype=uint8)
    floats = graph.node(f"{_PATH}/codes", "Cast", [flat], to=graph.activation)
    wide_points = graph.node(f"{_PATH}/zero_points", "Unsqueeze", [points, last])
    wide_scales = graph.node(f"{_PATH}/scales", "Unsqueeze", [scales, last])
    centred = graph.node(_PATH, "Sub", [floats, wide_points])
    values = graph.node(f"{_PATH}/values", "Mul", [centred, wide_scales])
    blocks = -(-weights.in_features // weights.block_size)
    padded = blocks * weights.block_size
    rows = graph.node(
        f"{_PATH}/values",
        "Reshape",
        [values, graph.integers([0, 0, padded])],
        shape=emission.stream(padded),
    )
    return _without_padding(emission, rows, padded)


def _without_padding(emission: Emission, rows: ir.Value, padded: int) -> ir.Value:
    hidden = emission.spec.hidden
    if padded == hidden:
        return rows
    graph = emission.graph
    return graph.node(
        _PATH,
        "Slice",
        [rows, graph.integers([0]), graph.integers([hidden]), graph.integers([-1])],
        shape=emission.stream(hidden),
    )
