"""What the layer of a head for drafts reads: a token's embedding and the hidden state before it, made one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxgen.builder.cache_names import HIDDEN_STATES
from onnxgen.builder.emitter.context import BATCH, SEQUENCE, Emission
from onnxgen.builder.emitter.linear import project
from onnxgen.builder.emitter.norms import norm, norm_weight
from onnxgen.builder.matrices import Rows
from onnxgen.builder.spec import MtpSpec

if TYPE_CHECKING:
    import onnx_ir as ir

_PATH = "/model/mtp"


def fused_input(emission: Emission, embedded: ir.Value, head: MtpSpec) -> ir.Value:
    """Declare the input `HIDDEN_STATES` ``[batch, seq, hidden]`` and join it with embeddings of that shape."""
    graph, width = emission.graph, emission.spec.hidden
    hidden = graph.input(HIDDEN_STATES, graph.activation, [BATCH, SEQUENCE, width])
    parts = [
        _normed(emission, hidden, head, head.hidden_norm),
        _normed(emission, embedded, head, head.embedding_norm),
    ]
    if not head.hidden_first:
        parts.reverse()
    both = graph.node(f"{_PATH}/join", "Concat", parts, shape=emission.stream(2 * width), axis=-1)
    rows = [Rows(f"{head.prefix}{head.projection}.weight", 0, width, width)]
    return project(emission, f"{_PATH}/{head.projection}", both, rows, 2 * width)[0]


def _normed(emission: Emission, x: ir.Value, head: MtpSpec, name: str) -> ir.Value:
    width = emission.spec.hidden
    weight = norm_weight(emission, f"{head.prefix}{name}.weight", width, name=f"model.mtp.{name}.weight")
    return norm(emission, f"{_PATH}/{name}", x, weight, shape=emission.stream(width))
