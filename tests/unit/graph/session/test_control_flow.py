"""If and Loop, against ONNX Runtime where it runs them and by hand where it does not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from graph_running import all_outputs, arrays_in, compiled, model_of, ort_outputs, prepared_outputs
from onnxgen.errors import KernelError, RunCancelledError

F = np.float32
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def same_as_ort(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    executable, want = compiled(model), ort_outputs(model, feeds)
    for _ in range(4):
        for got, expected in zip(all_outputs(executable, feeds), want, strict=True):
            assert got.dtype == expected.dtype
            if expected.ndim > 1 and not len(expected):  # it takes sizes without a number for 0
                assert (len(got), got.ndim) == (0, expected.ndim)
                continue
            np.testing.assert_array_equal(got, expected)


BRANCHES = """
g (float[N] x, bool c) => (float[M] y, float[N] z) {
    a = Neg (x)
    y, z = If (c) <
        then_branch = t () => (float[N] p, float[N] q) { p = Relu (a)  q = Identity (x) },
        else_branch = e () => (float[K] p2, float[N] q2) { p2 = Concat <axis = 0> (a, x)  q2 = Identity (a) }
    >
}
"""


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("size", [0, 3])
def test_if_computes_one_branch_with_outer_values(condition: bool, size: int) -> None:
    x = np.random.default_rng().normal(size=size).astype(F)
    same_as_ort(model_of(BRANCHES), {"x": x, "c": np.array(condition)})


def test_a_condition_may_have_rank_1() -> None:
    model = model_of(BRANCHES.replace("bool c", "bool[1] c"))
    (y, _z) = all_outputs(compiled(model), {"x": np.ones(2, F), "c": np.array([False])})
    np.testing.assert_array_equal(y, [-1, -1, 1, 1])


def test_outputs_of_branches_that_hand_on_inputs_are_the_callers_own() -> None:
    executable, x = compiled(BRANCHES), np.ones(3, F)
    for _ in range(4):
        results = all_outputs(executable, {"x": x, "c": np.array(True)})
        assert not any(np.may_share_memory(array, x) for array in results)
        results[1][...] = 9
        assert x.tolist() == [1, 1, 1]


LOOP = """
g (int64 trips, bool keep, float[N] x, float[N] outer) => (float[N] last, float[T, N] all) {
    last, all = Loop (trips, keep, x) <body = b (int64 i, bool c, float[N] v) => (bool c2, float[N] v2, float[N] seen) {
        c2 = Identity (c)
        s = Cast <to = 1> (i)
        t = Mul (s, outer)
        v2 = Add (v, t)
        seen = Neg (v2)
    }>
}
"""


@pytest.mark.parametrize("trips", [0, 1, 7])
@pytest.mark.parametrize("keep", [True, False])
def test_loop_carries_and_stacks(trips: int, keep: bool) -> None:
    rng = np.random.default_rng()
    x, outer = rng.normal(size=(2, 3)).astype(F)
    same_as_ort(model_of(LOOP), {"trips": np.array(trips), "keep": np.array(keep), "x": x, "outer": outer})


@pytest.mark.parametrize("opset", [7, 10, 11, 12, 13, 16, 19, 21, 23])
def test_loops_of_every_opset(opset: int) -> None:
    # Identity of a boolean is newer than some of these
    model = model_of(LOOP.replace("c2 = Identity (c)", "n = Not (c)  c2 = Not (n)"), opset=opset)
    got = all_outputs(
        compiled(model),
        {"trips": np.array(3), "keep": np.array(True), "x": np.zeros(2, F), "outer": np.ones(2, F)},
    )
    np.testing.assert_array_equal(got[0], [3, 3])
    np.testing.assert_array_equal(got[1], [[0, 0], [-1, -1], [-3, -3]])


WHILE = """
g (float x, float limit) => (float y, float[T] all) {
    start = Less (x, limit)
    y, all = Loop ("", start, x) <body = b (int64 i, bool c, float v) => (bool c2, float v2, float seen) {
        v2 = Add (v, v)
        seen = Identity (v)
        c2 = Less (v2, limit)
    }>
}
"""


@pytest.mark.parametrize("limit", [0.5, 30.0, 1000.0])
def test_loop_without_a_trip_count_runs_while_the_condition_holds(limit: float) -> None:
    same_as_ort(model_of(WHILE), {"x": np.array(1, F), "limit": np.array(limit, F)})


def test_loop_without_a_condition_ends_when_the_body_says_so() -> None:
    model = model_of(
        """
        g (int64 trips, float x) => (float y) {
            y = Loop (trips, "", x) <body = b (int64 i, bool c, float v) => (bool c2, float v2) {
                two = Constant <value = int64 {2}> ()
                c2 = Less (i, two)
                v2 = Add (v, v)
            }>
        }
        """
    )
    same_as_ort(model, {"trips": np.array(10), "x": np.array(1, F)})


def test_carried_values_may_grow() -> None:
    model = model_of(
        """
        g (int64 trips, float[N] x) => (float[M] y) {
            y = Loop (trips, "", x) <body = b (int64 i, bool c, float[K] v) => (bool c2, float[L] v2) {
                c2 = Identity (c)
                v2 = Concat <axis = 0> (v, x)
            }>
        }
        """
    )
    same_as_ort(model, {"trips": np.array(9), "x": np.arange(2, dtype=F)})


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_carried_values_may_change_places_and_stay_the_callers_own(trips: int) -> None:
    model = model_of(
        """
        g (int64 trips, float[N] x, float[N] y) => (float[N] p, float[N] q, float[N] r) {
            p, q, r = Loop (trips, "", x, y, x) <
                body = b (int64 i, bool c, float[N] u, float[N] v, float[N] w) => (bool c2, float[N] v2, float[N] u2, float[N] u3) {
                    c2 = Identity (c)
                    v2 = Identity (v)
                    u2 = Identity (u)
                    u3 = Identity (u)
                }
            >
        }
        """
    )
    feeds = {"trips": np.array(trips), "x": np.array([1, 2], F), "y": np.array([3, 4], F)}
    same_as_ort(model, feeds)
    executable = compiled(model)
    for _ in range(4):
        kept = [*feeds.values(), *all_outputs(executable, feeds)]
        for i, array in enumerate(kept):
            assert not any(np.may_share_memory(array, other) for other in kept[:i])


def test_sequences_are_carried() -> None:
    executable = compiled(
        """
        g (int64 trips, float[N] x) => (seq(float[N]) all, float[M] joined) {
            none = SequenceEmpty ()
            all = Loop (trips, "", none) <body = b (int64 i, bool c, seq(float[N]) s) => (bool c2, seq(float[N]) s2) {
                c2 = Identity (c)
                f = Cast <to = 1> (i)
                v = Add (x, f)
                s2 = SequenceInsert (s, v)
            }>
            joined = ConcatFromSequence <axis = 0> (all)
        }
        """,
        providers(),
    )
    x = np.zeros(2, F)
    for _ in range(3):
        all_, joined = all_outputs(executable, {"trips": np.array(3), "x": x})
        assert [item.tolist() for item in all_] == [[0, 0], [1, 1], [2, 2]]
        np.testing.assert_array_equal(joined, [0, 0, 1, 1, 2, 2])
        kept = [*arrays_in(all_), joined, x]
        for i, array in enumerate(kept):
            assert not any(np.may_share_memory(array, other) for other in kept[:i])


def providers() -> list:
    from onnxgen.graph.cpu.provider import CpuProvider
    from onnxgen.graph.reference.provider import ReferenceProvider

    return [CpuProvider(), ReferenceProvider()]


NESTED = """
g (int64 n, float[N] x, bool flip) => (float[N] y) {
    w = Constant <value = float {0.5}> ()
    y = Loop (n, "", x) <body = outer (int64 i, bool c, float[N] v) => (bool c2, float[N] v2) {
        c2 = Identity (c)
        m = Add (i, n)
        v2 = Loop (m, "", v) <body = inner (int64 j, bool d, float[N] u) => (bool d2, float[N] u2) {
            d2 = Identity (d)
            u2 = If (flip) <
                then_branch = t () => (float[N] p) { k = Add (i, j)  kf = Cast <to = 1> (k)  s = Mul (u, w)  p = Add (s, kf) },
                else_branch = e () => (float[N] p2) { p2 = Sub (u, x) }
            >
        }>
    }>
}
"""


@pytest.mark.parametrize("flip", [True, False])
def test_inner_graphs_see_the_values_of_every_graph_around_them(flip: bool) -> None:
    x = np.random.default_rng().normal(size=4).astype(F)
    same_as_ort(model_of(NESTED), {"n": np.array(3), "x": x, "flip": np.array(flip)})


def test_inputs_of_a_body_with_rank_1_get_rank_1() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["c2"]), helper.make_node("Add", ["i", "v"], ["v2"])],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, [1]),
            helper.make_tensor_value_info("c", BOOL, [1]),
            helper.make_tensor_value_info("v", INT64, [1]),
        ],
        [
            helper.make_tensor_value_info("c2", BOOL, [1]),
            helper.make_tensor_value_info("v2", INT64, [1]),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)],
        "g",
        [helper.make_tensor_value_info("n", INT64, []), helper.make_tensor_value_info("x", INT64, [1])],
        [helper.make_tensor_value_info("y", INT64, [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    same_as_ort(model, {"n": np.array(4), "x": np.array([1])})


def test_a_loop_without_trips_gives_empty_rows_of_the_inferred_shape() -> None:
    model = model_of(
        """
        g (int64 trips, float[N] x) => (float[N] y, float[T, N, 3] all) {
            y, all = Loop (trips, "", x) <body = b (int64 i, bool c, float[N] v) => (bool c2, float[N] v2, float[N, 3] w) {
                c2 = Identity (c)
                v2 = Neg (v)
                axis = Constant <value = int64[1] {1}> ()
                one = Constant <value = int64[2] {1, 3}> ()
                column = Unsqueeze (v, axis)
                w = Expand (column, one)
            }>
        }
        """
    )
    y, rows = all_outputs(compiled(model), {"trips": np.array(0), "x": np.ones(2, F)})
    assert (rows.shape, rows.dtype) == ((0, 2, 3), F)
    assert y.tolist() == [1, 1]


def test_a_run_is_stopped_inside_a_loop() -> None:
    executable = compiled(LOOP)
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 50

    feeds = {"trips": np.array(10**12), "keep": np.array(True), "x": np.ones(2, F), "outer": np.ones(2, F)}
    with pytest.raises(RunCancelledError):
        all_outputs(executable, feeds, should_stop=should_stop)
    assert asked == 51


def test_a_failing_node_of_a_body_is_named_with_its_graph() -> None:
    feeds = {"trips": np.array(3), "keep": np.array(True), "x": np.ones(2, F), "outer": np.ones(3, F)}
    with pytest.raises(KernelError, match=r"Add-14 .*node\.body.*v: float32\[2\].*t: float32\[3\]"):
        all_outputs(compiled(LOOP), feeds)


def test_bodies_are_prepared_too() -> None:
    executable = compiled(LOOP)
    feeds = {"trips": np.array(5), "keep": np.array(True), "x": np.ones(2, F), "outer": np.ones(2, F)}
    want = all_outputs(compiled(LOOP, prepare=False), feeds)
    for got, expected in zip(prepared_outputs(executable, feeds), want, strict=True):
        np.testing.assert_array_equal(got, expected)
