"""SequenceMap, by hand and against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from graph_running import all_outputs, compiled, model_of, ort_outputs
from onnxgen.errors import InvalidGraphError, KernelError, RunCancelledError
from onnxgen.graph.optimizer import OptimizationLevel

F = np.float32
LEVELS = [OptimizationLevel.DISABLED, OptimizationLevel.ALL]

SEVERAL = """
g (seq(float[A]) xs, seq(float[A]) ys, float[1] t, float[1] outer) => (seq(float[A]) sums, seq(float[A]) negated) {
    sums, negated = SequenceMap (xs, ys, t) <body = b (float[A] x, float[A] y, float[1] u) => (float[A] s, float[A] n) {
        xy = Add (x, y)
        scaled = Mul (xy, u)
        s = Add (scaled, outer)
        n = Neg (x)
    }>
}
"""


def elements(*sizes: int) -> list[np.ndarray]:
    rng = np.random.default_rng()
    return [rng.normal(size=size).astype(F) for size in sizes]


def same(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("sizes", [(), (2,), (3, 3, 3), (1, 0, 4)])
def test_several_sequences_tensors_and_outer_values(level: OptimizationLevel, sizes: tuple[int, ...]) -> None:
    executable = compiled(SEVERAL, level=level)
    t, outer = np.array([2], F), np.array([0.5], F)
    for _ in range(4):
        xs, ys = elements(*sizes), elements(*sizes)
        sums, negated = all_outputs(executable, {"xs": xs, "ys": ys, "t": t, "outer": outer})
        same(sums, [(x + y) * t + outer for x, y in zip(xs, ys, strict=True)])
        same(negated, [-x for x in xs])


def test_onnx_runtime_agrees() -> None:
    model = model_of(SEVERAL, opset=17)
    feeds = {"xs": elements(2, 3), "ys": elements(2, 3), "t": np.array([2], F), "outer": np.array([1], F)}
    for got, want in zip(all_outputs(compiled(model), feeds), ort_outputs(model, feeds), strict=True):
        same(got, want)


def test_elements_that_a_body_hands_on_are_the_callers_own() -> None:
    executable = compiled("""
        g (seq(float[A]) xs, float[B] t) => (seq(float[A]) same, seq(float[B]) many) {
            same, many = SequenceMap (xs, t) <body = b (float[A] x, float[B] u) => (float[A] y, float[B] v) {
                y = Identity (x)
                v = Identity (u)
            }>
        }""")
    xs, t = [np.ones(2, F), np.zeros(3, F)], np.ones(1, F)
    for _ in range(4):
        kept, many = all_outputs(executable, {"xs": xs, "t": t})
        for array in (*kept, *many):
            array[...] = 9
        assert [x.tolist() for x in xs] == [[1, 1], [0, 0, 0]]
        assert t.tolist() == [1]


@pytest.mark.parametrize("level", LEVELS)
def test_maps_within_maps_and_branches(level: OptimizationLevel) -> None:
    executable = compiled(
        """
        g (seq(float[A]) xs, seq(float[B]) ys, bool c) => (seq(float[A]) r) {
            r = If (c) <
                then_branch = t () => (seq(float[A]) p) {
                    p = SequenceMap (xs) <body = b (float[A] x) => (float[A] s) {
                        scaled = SequenceMap (ys) <body = d (float[B] y) => (float[A] xy) {
                            total = ReduceSum <keepdims = 0> (y)
                            xy = Mul (x, total)
                        }>
                        joined = ConcatFromSequence <axis = 0, new_axis = 1> (scaled)
                        axis = Constant <value_ints = [0]> ()
                        s = ReduceSum <keepdims = 0> (joined, axis)
                    }>
                },
                else_branch = e () => (seq(float[A]) q) { q = Identity (xs) }
            >
        }""",
        level=level,
    )
    for _ in range(4):
        xs, ys = elements(2, 3), elements(1, 4, 2)
        (mapped,) = all_outputs(executable, {"xs": xs, "ys": ys, "c": np.array(True)})
        total = sum(y.sum() for y in ys)
        for got, x in zip(mapped, xs, strict=True):
            np.testing.assert_allclose(got, x * total, rtol=1e-4, atol=1e-5)
        (untouched,) = all_outputs(executable, {"xs": xs, "ys": ys, "c": np.array(False)})
        same(untouched, xs)


def test_sequences_of_different_lengths_are_an_error() -> None:
    feeds = {"xs": elements(2, 2), "ys": elements(2), "t": np.ones(1, F), "outer": np.ones(1, F)}
    with pytest.raises(KernelError, match=r"its sequences have \[2, 1\] elements"):
        all_outputs(compiled(SEVERAL), feeds)


def test_a_run_stops_between_elements() -> None:
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 50

    many = elements(*[2] * 1000)
    feeds = {"xs": many, "ys": many, "t": np.ones(1, F), "outer": np.ones(1, F)}
    with pytest.raises(RunCancelledError):
        all_outputs(compiled(SEVERAL), feeds, should_stop=should_stop)
    assert asked == 51


def test_a_body_fits_its_node() -> None:
    text = SEVERAL.replace("(xs, ys, t) <", "(xs, ys) <")
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}')
    with pytest.raises(InvalidGraphError, match="has 3 inputs, the node expects 2"):
        compiled(model)
