"""Hidden states to logits, through a matrix of the head's own or the embedding's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxgen.builder.emitter.context import Emission
from onnxgen.builder.emitter.embedding import Embedding
from onnxgen.builder.emitter.graph_builder import CONTRIB
from onnxgen.builder.emitter.linear import (
    QuantizedWeights,
    in_activation_type,
    multiply_blocks,
    project,
    store_blocks,
)
from onnxgen.builder.matrices import Rows
from onnxgen.builder.spec import HEAD

if TYPE_CHECKING:
    import onnx_ir as ir

_PATH = "/lm_head"


def logits(emission: Emission, x: ir.Value, embedding: Embedding, *, tied: bool) -> None:
    """Multiply by the head, cap where the decoder caps, and declare ``logits`` float32 ``[batch, seq, vocab]``."""
    import onnx_ir as ir

    spec, graph = emission.spec, emission.graph
    shape = emission.stream(spec.vocab)
    value = _shared(emission, x, embedding) if tied else _own(emission, x)
    if spec.logit_softcap is not None:
        cap = graph.scalar(spec.logit_softcap)
        path = f"{_PATH}/softcap"
        value = graph.node(path, "Div", [value, cap], shape=shape)
        value = graph.node(path, "Tanh", [value], shape=shape)
        value = graph.node(path, "Mul", [value, cap], shape=shape)
    if graph.activation != ir.DataType.FLOAT:
        value = graph.node(_PATH, "Cast", [value], dtype=ir.DataType.FLOAT, shape=shape, to=ir.DataType.FLOAT)
    graph.output(value, "logits")


def _own(emission: Emission, x: ir.Value) -> ir.Value:
    spec = emission.spec
    rows = [Rows(HEAD, 0, spec.vocab, spec.vocab)]
    if emission.options.bits is None:
        return project(emission, _PATH, x, rows, spec.hidden)[0]
    (blocks,) = emission.matrices.blocks(rows, spec.hidden, bits=emission.options.head_bits)
    return multiply_blocks(emission, _PATH, x, store_blocks(emission, _PATH, blocks))


def _shared(emission: Emission, x: ir.Value, embedding: Embedding) -> ir.Value:
    table = embedding.table
    if isinstance(table, QuantizedWeights):
        return multiply_blocks(emission, _PATH, x, table)
    # The table is [vocab, hidden]: multiplied as it lies, not transposed into a copy.
    return emission.graph.node(
        _PATH,
        "FusedMatMul",
        [x, in_activation_type(emission, _PATH, table)],
        shape=emission.stream(emission.spec.vocab),
        domain=CONTRIB,
        transB=1,
    )
