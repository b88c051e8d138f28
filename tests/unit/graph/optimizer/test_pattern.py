import pytest

from graph_passes import parse
from onnxgen.graph.optimizer.pattern import Const, Var, either, match, matches, maybe, op

X = Var("x")


def output(text: str):
    return parse(text).graph.outputs[0]


@pytest.mark.parametrize("form", ["Mul(x, s)", "Mul(s, x)"])
def test_operands_of_what_commutes_match_in_both_orders(form):
    found = match(
        op("Mul", X, op("Sigmoid", X)),
        output(f"g (float[N] x) => (float[N] y) {{ s = Sigmoid(x) y = {form} }}"),
    )
    assert found is not None
    assert found["x"].name == "x"
    assert [node.op_type for node in found.nodes] == ["Mul", "Sigmoid"]


def test_operands_of_what_does_not_commute_match_in_order():
    value = output("g (float[N] x) => (float[N] y) { s = Sigmoid(x) y = Sub(s, x) }")
    assert match(op("Sub", op("Sigmoid", X), X), value)
    assert not match(op("Sub", X, op("Sigmoid", X)), value)


def test_one_name_is_one_value():
    value = output("g (float[N] x, float[N] z) => (float[N] y) { s = Sigmoid(z) y = Mul(x, s) }")
    assert not match(op("Mul", X, op("Sigmoid", X)), value)
    assert match(op("Mul", X, op("Sigmoid", Var("z"))), value)


def test_a_wrong_first_choice_is_taken_back():
    value = output(
        "g (float[N] x, float[N] z) => (float[N] y) { a = Neg(x) b = Neg(z) c = Abs(z) d = Add(a, b) y = Mul(d, c) }"
    )
    found = match(op("Mul", op("Add", op("Neg", X), op("Neg", Var("w"))), op("Abs", X)), value)
    assert found is not None
    assert (found["x"].name, found["w"].name) == ("z", "x")


@pytest.mark.parametrize(
    ("constant", "wanted", "fits"),
    [
        ("float c = {1.4142135}", 2**0.5, True),
        ("float c = {1.414}", 2**0.5, False),
        ("double c = {1.4142135}", 2**0.5, False),
        ("float[1] c = {2}", 2, True),
        ("float[1, 1] c = {2}", 2, False),
        ("float[2] c = {2, 2}", 2, False),
        ("float c = {0}", 0, True),
        ("float c = {-2}", 2, False),
    ],
)
def test_constants_fit_up_to_the_rounding_of_their_type(constant, wanted, fits):
    element = constant.split()[0].split("[")[0]
    value = output(f"g ({element}[2, N] x) => ({element}[2, N] y) <{constant}> {{ y = Mul(x, c) }}")
    assert bool(match(op("Mul", X, wanted), value)) is fits


def test_what_can_be_fed_is_no_constant():
    value = output("g (float[N] x, float c) => (float[N] y) <float c = {2}> { y = Mul(x, c) }")
    assert not match(op("Mul", X, 2), value)
    assert not match(op("Mul", X, Const()), value)


def test_alternatives_and_operators_that_may_be_there():
    value = output("g (float16[N] x) => (float[N] y) { c = Cast<to = 1>(x) y = Neg(c) }")
    pattern = op("Neg|Abs", maybe("Cast", X))
    assert [found["x"].name for found in matches(pattern, value)] == ["c", "x"]
    assert match(either(op("Abs", X), op("Neg", X)), value)
    assert not match(either(op("Abs", X), op("Sqrt", X)), value)


@pytest.mark.parametrize(
    ("outputs", "more", "closed"),
    [("", "", True), (", float[N] s", "", False), (", float[N] z", "z = Neg(s)", False)],
)
def test_a_match_is_closed_when_nobody_else_uses_its_inside(outputs, more, closed):
    value = output(f"g (float[N] x) => (float[N] y{outputs}) {{ s = Sigmoid(x) {more} y = Mul(x, s) }}")
    found = match(op("Mul", X, op("Sigmoid", X, name="s")), value)
    assert found is not None
    assert found.closed() is closed
    assert found.closed(keep=[found["s"]])


def test_a_use_inside_a_branch_is_a_use():
    value = output(
        """g (bool c, float[2] x) => (float[2] y, float[2] z) {
            s = Sigmoid(x)
            y = Mul(x, s)
            z = If(c) <then_branch = t () => (float[2] a) { a = Neg(s) }, else_branch = f () => (float[2] b) { b = Neg(x) }>
        }"""
    )
    found = match(op("Mul", X, op("Sigmoid", X)), value)
    assert found is not None
    assert not found.closed()


def test_a_pattern_stays_within_one_graph():
    model = parse(
        """g (bool c, float[2] x) => (float[2] z) {
            s = Sigmoid(x)
            z = If(c) <then_branch = t () => (float[2] a) { a = Mul(x, s) }, else_branch = f () => (float[2] b) { b = Neg(x) }>
        }"""
    )
    inner = next(graph for graph in model.graphs() if graph.name == "t")
    assert not match(op("Mul", X, op("Sigmoid", X)), inner.outputs[0])
