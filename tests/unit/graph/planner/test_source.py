from __future__ import annotations

import traceback

import numpy as np
import onnx
import pytest

from graph_running import all_outputs, compiled, prepared_outputs
from onnxgen.errors import KernelError
from onnxgen.graph.cpu.provider import CpuProvider
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import Claim, Decline

MODEL = """
decode (float[batch, 4] x, float[4] bias) => (float[batch, 4] y) <float[4] weight = {1, 2, 3, 4}> {
    [scale] scaled = Mul (x, weight)
    [shift] shifted = Add (scaled, bias)
    [turn] turned = Transpose <perm = [1, 0]> (shifted)
    [back] straight = Transpose <perm = [1, 0]> (turned)
    [act] y = Relu (straight)
}
"""

PLAN = """\
# plan of model 'decode': 5 calls


def make(kernels, constants, *, fresh, span=None, view=None, buffers=()):
    (Mul_0, Add_1, Transpose_2, Transpose_3, Relu_4,) = kernels[0:5]
    (w2,) = constants[0:1]
    (v3, v4,) = buffers[0:2]
    v5 = view((5,), Transpose_2(v4), v4)  # Transpose-21 'turn' on cpu -> turned: float[4, batch]
    v6 = view((6,), Transpose_3(v5), v5)  # Transpose-21 'back' on cpu -> straight: float[batch, 4]

    def plan(run, v0, v1):
        # v0 is x: float[batch, 4]
        # v1 is bias: float[4]
        Mul_0(v0, w2, v3)  # Mul-14 'scale' on cpu -> scaled: float[batch, 4] in slot 0
        Add_1(v3, v1, v4)  # Add-14 'shift' on cpu -> shifted: float[batch, 4] in slot 0 over v3
        v7 = Relu_4(v6)  # Relu-14 'act' on cpu -> y: float[batch, 4]
        return (v7, )

    return plan
"""


def feeds(batch: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng()
    return {"x": rng.normal(size=(batch, 4)).astype(np.float32), "bias": np.ones(4, np.float32)}


def test_the_plan_of_a_small_model() -> None:
    assert compiled(MODEL).source == PLAN


def test_the_plan_without_an_arena_drops_what_is_dead() -> None:
    source = compiled(MODEL, prepare=False).source
    assert "v4 = Add_1(v3, v1)" in source
    assert "        del v3\n" in source


def test_a_prepared_plan_computes_the_same() -> None:
    given = feeds(3)
    want = np.maximum(given["x"] * np.float32([1, 2, 3, 4]) + 1, 0)
    (got,) = prepared_outputs(compiled(MODEL), given)
    np.testing.assert_array_equal(got, want)


def test_tracebacks_show_the_line_of_the_plan() -> None:
    with pytest.raises(KernelError) as caught:
        all_outputs(compiled(MODEL), {"x": np.zeros((2, 4), np.float32), "bias": np.zeros(3, np.float32)})
    assert caught.value.__cause__ is not None
    shown = "".join(traceback.format_exception(caught.value.__cause__))
    assert "v4 = Add_1(v3, v1)  # Add-14 'shift' on cpu -> shifted: float[batch, 4]" in shown


@pytest.mark.parametrize("name", ['"""', "a\nb", "é 空", "\x00", "x'y\\"])
def test_names_of_any_text_do_no_harm(name: str) -> None:
    from graph_running import model_of

    model = model_of(MODEL)
    model.graph.name = name
    model.graph.node[0].name = name
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = f"v{name}"
    (got,) = prepared_outputs(compiled(model), feeds(2))
    assert got.shape == (2, 4)


def test_only_what_an_output_needs_is_computed() -> None:
    executable = compiled(
        """
        g (float[2] x, int64[1] shape) => (float[2] y, float[M] z) {
            y = Relu (x)
            z = Reshape (x, shape)
        }
        """
    )
    wrong = {"x": np.ones(2, np.float32), "shape": np.array([5])}
    np.testing.assert_array_equal(executable.run(wrong, ["y"])[0], wrong["x"])
    with pytest.raises(KernelError, match="Reshape"):
        executable.run(wrong, ["z"])


class Anything(CpuProvider):
    """The cpu provider, which also runs any operator of one domain: it negates."""

    name = "anything"

    def claim(self, node: NodeSpec) -> Claim | Decline:
        return Claim("negate") if node.domain == "any" else super().claim(node)

    def compile(self, node: NodeSpec, claim: Claim) -> Kernel:
        return Kernel(np.negative, np.negative) if node.domain == "any" else super().compile(node, claim)


@pytest.mark.parametrize("operator", ["3D", "²", "a b", "class", "run", "é\n", "'#"])
def test_operators_of_any_name_do_no_harm(operator: str) -> None:
    nodes = [
        onnx.helper.make_node(operator, ["x"], ["t"], domain="any"),
        onnx.helper.make_node(operator, ["t"], ["y"], domain="any"),
    ]
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N"]) for name in "xy"]
    graph = onnx.helper.make_graph(nodes, "g", ports[:1], ports[1:])
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("any", 1)]
    executable = compiled(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), [Anything()])
    np.testing.assert_array_equal(
        prepared_outputs(executable, {"x": np.arange(3.0, dtype="f")})[0], [0, 1, 2]
    )
