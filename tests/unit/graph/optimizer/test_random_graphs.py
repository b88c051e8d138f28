"""Random graphs compute the same at every level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph_passes import check_integrity, listing, parse, reference, run, same
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.optimizer import OptimizationLevel, optimize

CONSTANTS = """<float zero = {0}, float[1] one = {1}, float half = {0.5}, float[3] row = {1, 2, 3}, float[2, 3] ones = {1, 1, 1, 1, 1, 1},
    float minus = {-0.0}, float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2, 3] v = {0.5, -0.5, 1, 0.25, -1, 2}, int64[2] keep = {2, 3},
    int64[2] flip = {3, 2}, int64[1] six = {6}, int64[1] a0 = {0}, int64[1] a1 = {1}, int64[1] end = {9223372036854775807},
    int64[1] last = {-1}, float two = {2}, float root = {1.4142135}, float e = {0.00001}, int64[2] open = {0, -1}, bool yes = {1}>"""

# Each takes values of shape [2, 3] and makes one of that shape. Branches use inputs of the graph only: ONNX Runtime 1.32
# with its optimizer off frees some computed values before a branch reads them.
STEPS = [
    "{y} = Neg({a})",
    "{y} = Abs({a})",
    "{y} = Relu({a})",
    "{y} = Sigmoid({a})",
    "{y} = Identity({a})",
    "{y} = Add({a}, {b})",
    "{y} = Sub({a}, {b})",
    "{y} = Mul({a}, {b})",
    "{y} = Max({a}, {b})",
    "{y} = Add({a}, zero)",
    "{y} = Add(minus, {a})",
    "{y} = Mul({a}, one)",
    "{y} = Div({a}, two)",
    "{y} = Add({a}, row)",
    "{y} = Mul(ones, {a})",
    "{y} = Reshape({a}, keep)",
    "{y} = Reshape({a}, open)",
    "{y}_r = Reshape({a}, flip) {y} = Reshape({y}_r, keep)",
    "{y}_t = Transpose({a}) {y} = Transpose({y}_t)",
    "{y}_m = MatMul({a}, w) {y} = MatMul({y}_m, v)",
    "{y}_t = Transpose({a}) {y}_m = MatMul({y}_t, v) {y} = MatMul({b}, {y}_m)",
    "{y}_m = MatMul({a}, w) {y}_n = MatMul({y}_m, v) {y} = Add({y}_n, row)",
    "{y}_u = Unsqueeze({a}, a0) {y} = Squeeze({y}_u, a0)",
    "{y}_c = Cast<to = 11>({a}) {y} = Cast<to = 1>({y}_c)",
    "{y}_c = Cast<to = 10>({a}) {y} = Cast<to = 1>({y}_c)",
    "{y}_p = Slice({a}, a0, a1, a0) {y}_q = Slice({a}, a1, end, a0) {y} = Concat<axis = 0>({y}_q, {y}_p)",
    "{y}_s = Shape({a}) {y} = Reshape({b}, {y}_s)",
    "{y}_s = Sigmoid({a}) {y} = Mul({a}, {y}_s)",
    "{y}_d = Div({a}, root) {y}_f = Erf({y}_d) {y}_g = Add({y}_f, one) {y}_h = Mul({a}, {y}_g) {y} = Mul({y}_h, half)",
    """{y}_m = ReduceMean({a}, last) {y}_d = Sub({a}, {y}_m) {y}_s = Mul({y}_d, {y}_d) {y}_v = ReduceMean({y}_s, last)
       {y}_w = Add({y}_v, one) {y}_t = Sqrt({y}_w) {y}_n = Div({y}_d, {y}_t) {y}_k = Mul({y}_n, row) {y} = Add({y}_k, row)""",
    """{y}_s = Mul({a}, {a}) {y}_v = ReduceMean({y}_s, last) {y}_w = Add({y}_v, one) {y}_t = Sqrt({y}_w)
       {y}_n = Div({a}, {y}_t) {y} = Mul({y}_n, row)""",
    """{y} = If(yes) <then_branch = t_{y} () => (float[2, 3] {y}_a) {{ {y}_i = Mul(x, one) {y}_a = Neg({y}_i) }},
       else_branch = f_{y} () => (float[2, 3] {y}_b) {{ {y}_b = Abs(z) }}>""",
    "{y} = Dropout({a})",
]  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn) -> str:
    steps = draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=9))
    values, body = ["x", "z"], []
    for number, step in enumerate(steps):
        a, b = (draw(st.sampled_from(values)) for _ in range(2))
        values.append(f"y{number}")
        body.append(step.format(y=values[-1], a=a, b=b))
    made = values[2:]
    outputs = dict.fromkeys([made[-1], *draw(st.lists(st.sampled_from(made), max_size=2))])
    declared = ", ".join(f"float[2, 3] {name}" for name in outputs)
    return f"g (float[2, 3] x, float[2, 3] z) => ({declared}) {CONSTANTS} {{\n" + "\n".join(body) + "\n}"


def onnxruntime_runs(node: NodeSpec) -> bool:
    return node.op_type != "SwiGLU"


@pytest.mark.parametrize(
    "level", [OptimizationLevel.BASIC, OptimizationLevel.EXTENDED, OptimizationLevel.ALL]
)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=graphs(), seed=st.integers(0, 2**32 - 1))
def test_every_level_computes_the_same(level, text, seed):
    rng = np.random.default_rng(seed)
    feeds = {name: rng.standard_normal((2, 3)).astype(np.float32) for name in ("x", "z")}
    feeds["x"][0, 0] = rng.choice([0.0, -0.0, 1.0])
    model = parse(text)
    before = run(model, feeds)
    names = [value.name for value in model.graph.outputs]
    reports = optimize(model, level=level, can_run=onnxruntime_runs, evaluate=reference)
    check_integrity(model)
    assert [value.name for value in model.graph.outputs] == names
    # Rounding to half floats amplifies differences of one unit in the last place.
    tolerance = 2e-3 if "to = 10" in text else 1e-5
    same(before, run(model, feeds), tolerance, f"{listing(model)} {[r.did for r in reports]}")
