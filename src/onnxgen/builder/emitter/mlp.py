"""The gated MLP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxgen.builder.emitter.context import Emission
from onnxgen.builder.emitter.graph_builder import CONTRIB
from onnxgen.builder.emitter.linear import project
from onnxgen.builder.matrices import Rows
from onnxgen.builder.spec import Activation

if TYPE_CHECKING:
    import onnx_ir as ir


def gated_mlp(emission: Emission, index: int, x: ir.Value) -> ir.Value:
    """``down(activation(gate(x)) * up(x))``, ``[batch, seq, hidden]``."""
    spec = emission.spec
    path = f"/model/layers.{index}/mlp"
    width = spec.mlp.intermediate
    before = f"{emission.layer(index)}mlp."

    def linear(name: str, source: ir.Value, rows: Rows, columns: int) -> ir.Value:
        biases = [f"{before}{name}.bias"] if spec.mlp.bias else []
        return project(emission, f"{path}/{name}", source, [rows], columns, biases=biases)[0]

    if spec.mlp.fused_gate_up:
        gate_rows = Rows(f"{before}gate_up_proj.weight", 0, width, 2 * width)
        up_rows = Rows(f"{before}gate_up_proj.weight", width, width, 2 * width)
    else:
        gate_rows = Rows(f"{before}gate_proj.weight", 0, width, width)
        up_rows = Rows(f"{before}up_proj.weight", 0, width, width)
    gate = linear("gate_proj", x, gate_rows, spec.hidden)
    up = linear("up_proj", x, up_rows, spec.hidden)
    gated = emission.graph.node(
        path, "Mul", [_activate(emission, f"{path}/act_fn", gate), up], shape=emission.stream(width)
    )
    return linear("down_proj", gated, Rows(f"{before}down_proj.weight", 0, spec.hidden, spec.hidden), width)


def _activate(emission: Emission, path: str, x: ir.Value) -> ir.Value:
    graph = emission.graph
    shape = emission.stream(emission.spec.mlp.intermediate)
    match emission.spec.mlp.activation:
        case Activation.SILU:
            # x * sigmoid(alpha * x): with alpha 1 that is SiLU, in one kernel.
            return graph.node(path, "QuickGelu", [x], shape=shape, domain=CONTRIB, alpha=1.0)
        case Activation.GELU_TANH:
            return graph.node(path, "Gelu", [x], shape=shape, approximate="tanh")
        case Activation.GELU:
            return graph.node(path, "Gelu", [x], shape=shape, approximate="none")
