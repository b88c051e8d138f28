from __future__ import annotations

import numpy as np
import pytest

from graph_running import all_outputs, compiled, prepared_outputs
from onnxgen.errors import FeedError, KernelError, RunCancelledError
from onnxgen.foundations.tracing import TraceRecorder
from onnxgen.graph.ir.types import TensorType

F = np.float32
CHAIN = """
g (float[N, 4] x, float[4] bias) => (float[N, 4] y, float[N, 4] z) {
    [first] a = Add (x, bias)
    [second] y = Relu (a)
    [third] b = Neg (y)
    [fourth] z = Add (b, a)
}
"""


def feeds(size: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng()
    return {"x": rng.normal(size=(size, 4)).astype(F), "bias": rng.normal(size=4).astype(F)}


def expected(given: dict[str, np.ndarray]) -> list[np.ndarray]:
    a = given["x"] + given["bias"]
    y = np.maximum(a, 0)
    return [y, -y + a]


def test_inputs_and_outputs_are_as_the_file_declares_them() -> None:
    executable = compiled(CHAIN)
    assert [value.name for value in executable.inputs] == ["x", "bias"]
    assert isinstance(executable.outputs[0].type, TensorType)
    assert executable.outputs[0].type.shape == ("N", 4)
    assert executable.overridable == ()


def test_outputs_come_in_the_order_asked_for_and_as_often() -> None:
    executable, given = compiled(CHAIN), feeds()
    for _ in range(4):
        z, y, again = executable.run(given, ["z", "y", "z"])
        np.testing.assert_array_equal([y, z], expected(given))
        np.testing.assert_array_equal(again, z)
        assert not np.may_share_memory(again, z)


@pytest.mark.parametrize("names", [["y"], ["z"], ["y", "z"]])
def test_outputs_are_written_into_given_memory(names: list[str]) -> None:
    executable = compiled(CHAIN)
    for _ in range(5):
        given = feeds()
        targets = {name: np.full((3, 4), 7, F) for name in names}
        results = all_outputs(executable, given, outputs=targets)
        np.testing.assert_array_equal(results, expected(given))
        for name in names:
            assert results["yz".index(name)] is targets[name]


def test_prepared_kernels_write_given_memory_themselves() -> None:
    executable = compiled(CHAIN)
    target = {"y": np.zeros((3, 4), F)}
    prepared_outputs(executable, feeds(), outputs=target)
    (plan, _pool) = next(iter(executable._routine._prepared.values()))
    assert plan.layout is not None
    assert [plan.program.values[number].name for number in plan.layout.given] == ["y"]


@pytest.mark.parametrize("overlap", ["same", "shifted", "reversed", "strided", "readonly feed"])
def test_given_memory_may_overlap_the_inputs_or_be_strided(overlap: str) -> None:
    executable = compiled(CHAIN)
    for _ in range(5):
        memory = np.zeros((9, 4), F)
        given = feeds()
        memory[:3] = given["x"]
        want = expected(given)
        target = {
            "same": memory[:3], "shifted": memory[1:4], "reversed": memory[2::-1],
            "strided": memory[3::2], "readonly feed": memory[6:],
        }[overlap]  # fmt: skip
        x = memory[:3].view()
        x.flags.writeable = overlap != "readonly feed"
        results = all_outputs(executable, {**given, "x": x}, outputs={"y": target})
        np.testing.assert_array_equal(target, want[0])
        np.testing.assert_array_equal(results[1], want[1])


@pytest.mark.parametrize("target", [np.zeros((2, 4), F), np.zeros((3, 4), np.float64), np.zeros(12, F)])
def test_given_memory_of_another_type_is_an_error_with_both(target: np.ndarray) -> None:
    executable = compiled(CHAIN)
    for _ in range(4):
        with pytest.raises(FeedError, match=r"output 'y' is float32\[3, 4\]"):
            all_outputs(executable, feeds(), outputs={"y": target})


def test_initializers_that_are_inputs_may_be_fed() -> None:
    executable = compiled("g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Mul (x, w) }")
    assert [value.name for value in executable.overridable] == ["w"]
    assert [value.name for value in executable.inputs] == ["x"]
    x = np.array([3, 4], F)
    for _ in range(4):
        np.testing.assert_array_equal(all_outputs(executable, {"x": x})[0], [3, 8])
        np.testing.assert_array_equal(all_outputs(executable, {"x": x, "w": x})[0], [9, 16])
    with pytest.raises(FeedError, match="no inputs"):
        all_outputs(executable, {"x": x, "typo": x})


def test_wrong_names_are_told_with_the_right_ones() -> None:
    executable = compiled(CHAIN)
    with pytest.raises(FeedError, match=r"\['bias'\] are missing"):
        executable.run({"x": np.zeros((1, 4), F)}, ["y"])
    with pytest.raises(FeedError, match=r"no inputs \['other'\]"):
        executable.run({**feeds(), "other": np.zeros(1)}, ["y"])
    with pytest.raises(FeedError, match=r"no output 'w'"):
        executable.run(feeds(), ["w"])


def test_a_run_is_stopped_between_nodes_and_the_next_one_is_whole() -> None:
    executable, given = compiled(CHAIN), feeds()
    for _ in range(4):
        asked = iter([False, False, True])
        with pytest.raises(RunCancelledError):
            all_outputs(executable, given, should_stop=lambda: next(asked))  # noqa: B023
        np.testing.assert_array_equal(
            all_outputs(executable, given, should_stop=lambda: False), expected(given)
        )


def test_a_failing_node_is_named_with_its_inputs_also_in_prepared_runs() -> None:
    executable = compiled(
        """
        g (float[N] x, int64[1] at) => (float[N] y) {
            [low] a = Neg (x)
            [high] b = Neg (a)
            [pick] c = Gather (b, at)
            y = Add (b, c)
        }
        """
    )
    x = np.ones(3, F)
    for _ in range(3):
        all_outputs(executable, {"x": x, "at": np.array([2])})
    assert executable._routine._prepared
    with pytest.raises(
        KernelError, match=r"Gather-13 'pick'.*'cpu'.*b: float32\[3\], at: int64\[1\]"
    ) as caught:
        all_outputs(executable, {"x": x, "at": np.array([9])})
    assert caught.value.__cause__ is not None
    np.testing.assert_array_equal(all_outputs(executable, {"x": x, "at": np.array([0])})[0], [2, 2, 2])


def test_a_node_whose_result_is_larger_than_memory_is_named() -> None:
    executable = compiled("g (float[N, 1] x, float[1, M] y) => (float[N, M] z) { [outer] z = Add (x, y) }")
    x = np.broadcast_to(F(1), (2**30, 1))
    with pytest.raises(KernelError, match=r"Add-14 'outer'.*MemoryError") as caught:
        all_outputs(executable, {"x": x, "y": x.T})
    assert isinstance(caught.value.__cause__, MemoryError)


def test_infinities_and_nan_are_results_and_no_warnings() -> None:
    executable = compiled("g (float[2] x, float[2] y) => (float[2] z) { d = Div (x, y)  z = Exp (d) }")
    for _ in range(4):
        (z,) = all_outputs(executable, {"x": np.array([1, 0], F), "y": np.zeros(2, F)})
        np.testing.assert_array_equal(z, [np.inf, np.nan])


def test_a_traced_run_has_a_span_for_each_node() -> None:
    executable, given = compiled(CHAIN), feeds()
    for _ in range(4):
        trace = TraceRecorder()
        np.testing.assert_array_equal(all_outputs(executable, given, trace=trace), expected(given))
        spans = [event for event in trace.events() if event["ph"] == "X"]
        assert [span["name"] for span in spans] == ["first", "second", "third", "fourth"]
        assert spans[0]["args"] == {
            "operator": "Add-14 'first'", "provider": "cpu", "inputs": ["float32[3, 4]", "float32[4]"],
            "outputs": ["float32[3, 4]"], "bytes_in": 64, "bytes_out": [48],
        }  # fmt: skip


def test_spans_of_inner_graphs_lie_inside_their_node() -> None:
    executable = compiled(
        """
        g (float[N] x, bool c) => (float[N] y) {
            [choice] y = If (c) <
                then_branch = t () => (float[N] p) { [yes] p = Neg (x) },
                else_branch = e () => (float[N] q) { [no] q = Relu (x) }
            >
        }
        """
    )
    trace = TraceRecorder()
    all_outputs(executable, {"x": np.ones(2, F), "c": np.array(True)}, trace=trace)
    outer, inner = [event for event in trace.events() if event["ph"] == "X"]
    assert (outer["name"], inner["name"]) == ("choice", "yes")
    assert outer["ts"] <= inner["ts"]
    assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1e-3


def test_outputs_in_one_place_do_not_disturb_each_other() -> None:
    executable = compiled(
        "g (float[2, 2] x) => (float[2, 2] y, float[2, 2] z) { y = Neg (x)  z = MatMul (y, y) }"
    )
    x = np.array([[1, 2], [3, 4]], np.float32)
    for _ in range(4):
        place = np.empty((2, 2), np.float32)
        results = executable.run({"x": x}, ["y", "z"], outputs={"y": place, "z": place})
        assert results[0] is results[1] is place
        np.testing.assert_array_equal(place, x @ x)
