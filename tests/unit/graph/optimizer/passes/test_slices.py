import numpy as np
import onnx_ir as ir
from hypothesis import given
from hypothesis import strategies as st

from graph_passes import check, run
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.passes.slices import SLICES

HEADER = """<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64[1] three = {3},
    int64[1] minus = {-1}, int64[1] max = {9223372036854775807}>"""


def test_on_other_axes():
    check(
        f"""g (float[5, 6] x) => (float[A, B] y) {HEADER} {{
            a = Slice(x, one, max, zero, two)
            y = Slice(a, minus, zero, one, minus)
        }}""",
        SLICES,
        [
            "y = Slice(x, [1, -1], [9223372036854775807, 0], [0, 1], [2, -1])",
        ],
    )


def test_on_the_same_axis():
    check(
        f"g (float[N] x) => (float[A] y) {HEADER} {{ a = Slice(x, one, four) y = Slice(a, one, max) }}",
        SLICES,
        ["y = Slice(x, [2], [4], [0], [1])"],
    )


def test_from_the_end_stays():
    check(
        f"g (float[N] x) => (float[A] y) {HEADER} {{ a = Slice(x, one, four) y = Slice(a, zero, minus) }}",
        SLICES,
        None,
    )


def test_steps_on_the_same_axis_stay():
    check(
        f"g (float[N] x) => (float[A] y) {HEADER} {{ a = Slice(x, zero, max, zero, two) y = Slice(a, one, three) }}",
        SLICES,
        None,
    )


@given(st.lists(st.integers(0, 9), min_size=4, max_size=4), st.integers(0, 8))
def test_any_two_from_the_front_are_one(cuts, size):
    a, b, c, d = cuts
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["" : 21]> g (float[N] x) => (float[M] y)
        <int64[1] a = {{{a}}}, int64[1] b = {{{b}}}, int64[1] c = {{{c}}}, int64[1] d = {{{d}}}> {{
            t = Slice(x, a, b)
            y = Slice(t, c, d)
        }}"""
    )
    x = np.arange(size, dtype=np.float32)
    assert SLICES.run(Context(model, can_run=lambda _: True))
    (got,) = run(model, {"x": x})
    np.testing.assert_array_equal(got, x[a:b][c:d])
