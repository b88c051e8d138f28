"""Runs of one signature after another: allocated, watched, prepared."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from graph_running import all_outputs, arrays_in, compiled, model_of, prepared_outputs
from onnxgen.graph.session.executor import Executable

FLOAT = onnx.TensorProto.FLOAT
F = np.float32


def is_prepared(executable: Executable) -> bool:
    return any(plan.layout is not None for plan, _ in executable._routine._prepared.values())


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    """Graphs over [N, 4], [4, N] and [N, 8] values: elementwise, views, matrix products, joins and splits."""
    by_kind: dict[str, list[str]] = {"n4": ["x", "y"], "4n": [], "n8": []}
    nodes: list[onnx.NodeProto] = []

    def add(op: str, inputs: list[str], kinds: list[str], **attributes: object) -> None:
        outputs = [f"v{len(nodes)}_{i}" for i in range(len(kinds))]
        nodes.append(helper.make_node(op, inputs, outputs, **attributes))
        for name, kind in zip(outputs, kinds, strict=True):
            by_kind[kind].append(name)

    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from([k for k, names in by_kind.items() if names]))
        a, b = (draw(st.sampled_from(by_kind[kind])) for _ in range(2))
        choice = draw(
            st.sampled_from(
                ["Add", "Sub", "Relu", "Neg", "Transpose", "Concat", "Split", "MatMul", "Identity"]
            )
        )
        if choice in ("Add", "Sub"):
            add(choice, [a, b], [kind])
        elif choice == "Transpose" and kind in ("n4", "4n"):
            add(choice, [a], ["4n" if kind == "n4" else "n4"], perm=[1, 0])
        elif choice == "Concat" and kind == "n4":
            add(choice, [a, b], ["n8"], axis=1)
        elif choice == "Split" and kind == "n8":
            add(choice, [a], ["n4", "n4"], axis=1, num_outputs=2)
        elif choice == "MatMul" and kind == "n8":
            add(choice, [a, "w"], ["n4"])
        else:
            add(choice if choice in ("Relu", "Neg", "Identity") else "Neg", [a], [kind])
    made = [name for names in by_kind.values() for name in names]
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=4, unique=True))
    graph = helper.make_graph(
        nodes,
        "random",
        [helper.make_tensor_value_info(name, FLOAT, ["N", 4]) for name in ("x", "y")],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [helper.make_tensor("w", FLOAT, [8, 4], [((i * 7) % 5) - 2.0 for i in range(32)])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@settings(max_examples=60, deadline=None)
@given(models(), st.integers(0, 5))
def test_arenas_change_no_result_and_are_in_none(model: onnx.ModelProto, size: int) -> None:
    rng = np.random.default_rng()
    heap = compiled(model, prepare=False)
    ways = [heap, compiled(model), compiled(model, memory_reuse=False)]
    for _ in range(4):
        feeds = {name: rng.integers(-4, 5, (size, 4)).astype(F) for name in ("x", "y")}
        before = {name: array.copy() for name, array in feeds.items()}
        results = [all_outputs(way, feeds) for way in ways]
        for other in results[1:]:
            for got, want in zip(other, results[0], strict=True):
                np.testing.assert_array_equal(got, want)
        kept = [array for result in results for array in result] + list(feeds.values())
        for i, array in enumerate(kept):
            assert not any(array.size and np.may_share_memory(array, other) for other in kept[:i])
        for name, array in feeds.items():
            np.testing.assert_array_equal(array, before[name])


CHAIN = """
g (float[N, 4] x) => (float[N, 4] y) {
    a = Neg (x)
    b = Relu (a)
    c = Add (b, a)
    y = Mul (c, c)
}
"""


def expected(x: np.ndarray) -> np.ndarray:
    return (np.maximum(-x, 0) - x) ** 2


def test_the_third_run_of_a_signature_is_prepared_and_results_stay() -> None:
    executable, rng = compiled(CHAIN), np.random.default_rng()
    results = []
    for run in range(6):
        x = rng.normal(size=(3, 4)).astype(F)
        results.append((x, all_outputs(executable, {"x": x})[0]))
        assert is_prepared(executable) == (run >= 1)
    for x, y in results:
        np.testing.assert_allclose(y, expected(x), rtol=1e-6)


def test_shapes_that_grow_with_every_run_never_get_memory_planned() -> None:
    executable = compiled(CHAIN)
    for size in range(300):
        x = np.full((size, 4), -1, F)
        np.testing.assert_array_equal(all_outputs(executable, {"x": x})[0], expected(x))
    assert not is_prepared(executable)
    assert len(executable._routine._seen) <= 64


def test_without_anything_to_plan_later_runs_find_their_function_at_once() -> None:
    executable = compiled("g (float[N] x) => (float[N] y) { y = Neg (x) }")
    for _ in range(3):
        assert all_outputs(executable, {"x": np.ones(2, F)})[0].tolist() == [-1, -1]
    ((plan, _),) = executable._routine._prepared.values()
    assert plan.layout is None
    given = {"y": np.empty(2, F)}
    for _ in range(4):
        assert all_outputs(executable, {"x": np.ones(2, F)}, outputs=given)[0] is given["y"]
        assert given["y"].tolist() == [-1, -1]
        given["y"][...] = 0


def test_only_signatures_used_lately_keep_their_memory() -> None:
    executable = compiled(CHAIN)
    for size in range(40):
        prepared_outputs(executable, {"x": np.ones((size, 4), F)})
    assert len(executable._routine._prepared) == 32


def test_several_threads_share_one_executable() -> None:
    executable = compiled(CHAIN)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            x = rng.normal(size=(int(rng.integers(1, 4)), 4)).astype(F)
            np.testing.assert_allclose(all_outputs(executable, {"x": x})[0], expected(x), rtol=1e-6)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, [random.randrange(1 << 30) for _ in range(6)]))
    assert is_prepared(executable)


def test_one_name_for_two_sizes_runs_on_the_heap() -> None:
    executable = compiled(
        "g (float[N] x, float[N] y) => (float[N] z) { a = Neg (x)  b = Neg (y)  z = Concat <axis = 0> (a, b) }"
    )
    x, y = np.ones(3, F), np.ones(5, F)
    for _ in range(4):
        np.testing.assert_array_equal(all_outputs(executable, {"x": x, "y": y})[0], np.full(8, -1, F))
    assert not is_prepared(executable)
    for _ in range(4):
        np.testing.assert_array_equal(all_outputs(executable, {"x": x, "y": x})[0], np.full(6, -1, F))


def test_broadcast_in_one_signature_and_not_in_another() -> None:
    executable = compiled(
        "g (float[N] x, float[M] y) => (float[K] z) { a = Neg (x)  b = Add (a, y)  c = Relu (b)  z = Neg (c) }"
    )
    rng = np.random.default_rng()
    for n, m in [(3, 3), (1, 3), (3, 1), (3, 3)]:
        for _ in range(4):
            x, y = rng.normal(size=n).astype(F), rng.normal(size=m).astype(F)
            np.testing.assert_array_equal(all_outputs(executable, {"x": x, "y": y})[0], -np.maximum(y - x, 0))


@pytest.mark.parametrize("declared", [["N", 2], [5, 2], ["M", "M"], [], None])
def test_wrong_declared_shapes_corrupt_nothing(declared: list[object] | None) -> None:
    model = model_of(
        """
        g (float[N] x) => (float[K] z) {
            where = NonZero (x)
            floats = Cast <to = 1> (where)
            low = Neg (floats)
            z = Neg (low)
        }
        """
    )
    for name in ("where", "floats", "low"):
        kind = onnx.TensorProto.INT64 if name == "where" else FLOAT
        model.graph.value_info.append(helper.make_tensor_value_info(name, kind, declared))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("z", FLOAT, None))
    executable = compiled(model)
    for count in (5, 5, 5, 2, 0, 1, 5, 2):
        x = np.zeros(7, F)
        x[:count] = 1
        np.testing.assert_array_equal(all_outputs(executable, {"x": x})[0], [np.arange(count)])


def test_views_that_turn_out_to_be_copies() -> None:
    executable = compiled(
        """
        g (float[N, 4] x) => (float[M] z) <int64[1] flat = {-1}> {
            a = Neg (x)
            turned = Transpose <perm = [1, 0]> (a)
            copied = Reshape (turned, flat)
            z = Neg (copied)
        }
        """
    )
    rng = np.random.default_rng()
    for _ in range(5):
        x = rng.normal(size=(3, 4)).astype(F)
        np.testing.assert_array_equal(all_outputs(executable, {"x": x})[0], x.T.reshape(-1))
    assert is_prepared(executable)


def test_strings_and_bfloat16_among_the_values() -> None:
    executable = compiled(
        """
        g (string[N] names, bfloat16[N] x) => (string[N] same, float[N] y) {
            same = Identity (names)
            a = Cast <to = 1> (x)
            b = Neg (a)
            y = Neg (b)
        }
        """
    )
    import ml_dtypes

    names, x = np.array(["a", "b"], object), np.array([1, 2], ml_dtypes.bfloat16)
    same, y = prepared_outputs(executable, {"names": names, "x": x})
    assert same.tolist() == ["a", "b"]
    assert same is not names
    np.testing.assert_array_equal(y, [1, 2])


def test_outputs_are_never_inputs_weights_or_each_other() -> None:
    executable = compiled(
        """
        g (float[N] x) => (float[N] a, float[N] b, float[2] w, float[2] v, float[1, N] c, float[N] d) <float[2] w = {1, 2}> {
            a = Identity (x)
            b = Identity (a)
            v = Identity (w)
            zero = Constant <value = int64[1] {0}> ()
            r = Relu (x)
            c = Unsqueeze (r, zero)
            d = Identity (r)
        }
        """
    )
    x = np.array([1, -2, 3], F)
    for _ in range(4):
        results = all_outputs(executable, {"x": x})
        kept = [x, *[array for result in results for array in arrays_in(result)]]
        for i, array in enumerate(kept):
            assert not any(np.may_share_memory(array, other) for other in kept[:i])
        for array in results:
            array[...] = 77
        x[...] = [1, -2, 3]
    np.testing.assert_array_equal(all_outputs(executable, {"x": x})[2], [1, 2])


def test_a_view_of_fresh_memory_is_not_copied() -> None:
    executable = compiled(
        "g (float[4] x) => (float[2, 2] y) <int64[2] s = {2, 2}> { a = Relu (x)  y = Reshape (a, s) }"
    )
    (y,) = prepared_outputs(executable, {"x": np.ones(4, F)})
    assert y.base is not None
    assert "fresh(" not in executable.source


def test_splits_of_a_buffer_are_made_once() -> None:
    executable = compiled(
        """
        g (float[N, 6] x) => (float[N, 2] y) {
            a = Neg (x)
            p, q, r = Split <axis = 1, num_outputs = 3> (a)
            s = Add (p, q)
            y = Sub (s, r)
        }
        """
    )
    assert "    v2, v3, v4 = view((2, 3, 4), Split_1(v1), v1)" in executable.source
    rng = np.random.default_rng()
    for _ in range(5):
        x = rng.normal(size=(3, 6)).astype(F)
        want = -x[:, :2] - x[:, 2:4] + x[:, 4:]
        np.testing.assert_allclose(all_outputs(executable, {"x": x})[0], want, rtol=1e-5, atol=1e-6)
