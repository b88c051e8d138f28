import numpy as np
import pytest

from graph_passes import check
from onnxgen.graph.optimizer.passes.arithmetic import ARITHMETIC

SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45], np.float32)


@pytest.mark.parametrize(
    "node",
    [
        "Mul (x, one)",
        "Mul (one1, x)",
        "Div (x, one)",
        "Pow (x, one)",
        "Sub (x, zero)",
        "Add (x, minus)",
        "Add (minus, x)",
    ],
)
def test_neutral_operands_go(node):
    check(
        f"""g (float[6] x) => (float[6] y)
        <float one = {{1}}, float[1] one1 = {{1}}, float zero = {{0}}, float minus = {{-0.0}}> {{
            a = {node}
            y = Reciprocal(a)
        }}""",
        ARITHMETIC,
        ["y = Reciprocal(x)"],
        feeds={"x": SPECIAL},
    )


@pytest.mark.parametrize("node", ["Add (x, zero)", "Mul (x, ones)", "Add (zero, x)", "Div (x, one)"])
def test_integers_have_one_zero(node):
    check(
        f"""g (int64[N, 2] x) => (int64[N, 2] y) <int64 one = {{1}}, int64[2] ones = {{1, 1}}, int64 zero = {{0}}> {{
            a = {node}
            y = Abs(a)
        }}""",
        ARITHMETIC,
        ["y = Abs(x)"],
    )


@pytest.mark.parametrize(
    "node",
    [
        "Add (x, zero)",
        "Sub (x, minus)",
        "Div (one, x)",
        "Pow (one, x)",
        "Sub (zero, x)",
        "Mul (x, zero)",
        "Mul (x, two)",
        "Mul (x, most)",
    ],
)
def test_operands_that_change_something_stay(node):
    check(
        f"""g (float[6] x) => (float[6] y)
        <float one = {{1}}, float two = {{2}}, float[6] most = {{1, 1, 1, 1, 1, 2}}, float zero = {{0}}, float minus = {{-0.0}}> {{
            a = {node}
            y = Reciprocal(a)
        }}""",
        ARITHMETIC,
        None,
        feeds={"x": SPECIAL},
    )


def test_a_sum_has_no_sign_of_zero_to_lose():
    check(
        "g (float[N, 3] x, float[3, M] w) => (float[N, M] y) <float zero = {0}> { p = MatMul(x, w) a = Add(p, zero) y = Neg(a) }",
        ARITHMETIC,
        ["t0 = MatMul(x, w)", "y = Neg(t0)"],
    )


@pytest.mark.parametrize(
    "other", ["float[1, 1, 1] one = {1}", "float[3, 1] one = {1, 1, 1}", "float[2] one = {1, 1}"]
)
def test_operands_that_widen_the_shape_stay(other):
    check(
        f"g (float[N, M] x) => (y) <{other}> {{ a = Mul(x, one) y = Neg(a) }}",
        ARITHMETIC,
        None,
        sizes={"N": 1, "M": 1},
    )


def test_an_operand_that_can_be_fed_stays():
    check(
        "g (float[2] x, float o) => (float[2] y) <float o = {1}> { a = Mul(x, o) y = Neg(a) }",
        ARITHMETIC,
        None,
        feeds={"o": np.array(3, np.float32)},
    )


@pytest.mark.parametrize(("op_type", "element"), [("Neg", "float"), ("Not", "bool"), ("Neg", "int64")])
def test_twice_is_nothing(op_type, element):
    check(
        f"g ({element}[N] x) => ({element}[N] y, {element}[N] z) {{ a = {op_type}(x) b = {op_type}(a) y = Identity(b) z = Identity(a) }}",
        ARITHMETIC,
        [f"t0 = {op_type}(x)", "y = Identity(x)", "z = Identity(t0)"],
    )
