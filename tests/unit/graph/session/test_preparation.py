"""What is not believed, and what happens when memory or views fail."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from graph_running import all_outputs, compiled
from onnxgen.graph.cpu.provider import CpuProvider
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import Claim, Decline
from onnxgen.graph.session.executor import Executable

F = np.float32


class Custom(CpuProvider):
    """The cpu provider and operators of a domain that no inference knows."""

    name = "custom"

    def __init__(self) -> None:
        self.memory_is_left = True

    def claim(self, node: NodeSpec) -> Claim | Decline:
        return Claim("custom") if node.domain == "test" else super().claim(node)

    def compile(self, node: NodeSpec, claim: Claim) -> Kernel:
        if node.domain != "test":
            return super().compile(node, claim)
        return Kernel(lambda x: x[x > 0].reshape(1, -1))

    def allocate(self, num_bytes: int) -> np.ndarray:
        if not self.memory_is_left:
            raise MemoryError
        return super().allocate(num_bytes)


def positives_model(declared: list[object]) -> onnx.ModelProto:
    """A custom operator whose output has one column for each positive element, whatever the file declares."""
    vector = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("Neg", ["x"], ["a"]),
            helper.make_node("Neg", ["a"], ["b"]),
            helper.make_node("Positives", ["b"], ["p"], domain="test"),
            helper.make_node("Neg", ["p"], ["q"]),
            helper.make_node("Neg", ["q"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", vector, ["N"])],
        [helper.make_tensor_value_info("y", vector, None)],
        value_info=[helper.make_tensor_value_info("p", vector, declared)],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("test", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def test_what_only_the_file_claims_of_an_unknown_operator_is_not_believed() -> None:
    executable = compiled(positives_model([1, 5]), [Custom()])
    for count in (5, 5, 5, 1, 0, 5):
        x = np.full(7, -1, F)
        x[:count] = np.arange(1, count + 1)
        np.testing.assert_array_equal(all_outputs(executable, {"x": x})[0], [np.arange(1, count + 1)])
    assert planned_names(executable) == ["a", "b"]


def test_a_shape_that_was_once_another_is_never_planned_again() -> None:
    executable = compiled("g (float[N] x) => (float[N] y) { a = Neg (x)  b = Relu (a)  y = Neg (b) }")
    x = np.ones(3, F)
    for _ in range(3):
        all_outputs(executable, {"x": x})
    routine = executable._routine
    assert planned_names(executable) == ["a", "b"]
    numbers = {value.name: number for number, value in enumerate(routine.program.values)}
    watched = {numbers[name]: ((size,), x.dtype) for name, size in [("a", 9), ("b", 5), ("y", 5)]}
    x5 = np.ones(5, F)
    outputs = routine.program.outputs
    routine._prepare(("a run in which a had another shape",), outputs, {}, routine._forms[0], (x5,), watched)
    for size in (3, 4):
        for _ in range(4):
            np.testing.assert_array_equal(all_outputs(executable, {"x": np.ones(size, F)})[0], np.zeros(size))
        assert planned_names(executable) == ["b"]


def planned_names(executable: Executable) -> list[str]:
    """Values in the arena of the frames made last."""
    plan, _ = list(executable._routine._prepared.values())[-1]
    assert plan.layout is not None
    return [plan.program.values[buffer.value].name for buffer in plan.layout.buffers]


def test_without_memory_for_an_arena_runs_go_on_without_one() -> None:
    provider = Custom()
    provider.memory_is_left = False
    executable = compiled("g (float[N] x) => (float[N] y) { a = Neg (x)  y = Neg (a) }", [provider])
    for _ in range(4):
        np.testing.assert_array_equal(all_outputs(executable, {"x": np.ones(3, F)})[0], np.ones(3))
    assert all(plan.layout is None for plan, _ in executable._routine._prepared.values())


def test_a_view_that_cannot_be_made_fails_in_the_run_alone() -> None:
    executable = compiled(
        """
        g (float[N] x) => (float[M] z) <int64[1] four = {4}> {
            a = Neg (x)
            b = Reshape (a, four)
            z = Neg (b)
        }
        """
    )
    for size in (4, 4, 4, 3, 3, 4):
        x = np.ones(size, F)
        if size == 4:
            np.testing.assert_array_equal(all_outputs(executable, {"x": x})[0], x)
        else:
            try:
                all_outputs(executable, {"x": x})
            except Exception as error:  # noqa: BLE001
                assert "Reshape" in str(error)
            else:
                raise AssertionError("3 elements are no 4")
