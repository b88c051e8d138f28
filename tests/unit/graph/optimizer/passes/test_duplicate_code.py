from graph_passes import apply, check, parse
from onnxgen.graph.optimizer.passes.duplicate_code import DUPLICATE_CODE


def test_the_same_operator_on_the_same_inputs_runs_once():
    check(
        "g (float[N] x) => (float[N] y) { a = Elu<alpha = 0.5>(x) b = Elu<alpha = 0.5>(x) y = Add(a, b) }",
        DUPLICATE_CODE,
        ["t0 = Elu(x) {alpha=0.5}", "y = Add(t0, t0)"],
    )


def test_whole_chains_merge():
    check(
        "g (float[N] x) => (float[N] y) { a = Neg(x) c = Abs(a) b = Neg(x) d = Abs(b) y = Add(c, d) }",
        DUPLICATE_CODE,
        ["t0 = Neg(x)", "t1 = Abs(t0)", "y = Add(t1, t1)"],
    )


def test_attributes_and_the_order_of_inputs_count():
    check(
        """g (float[N] x) => (float[N] y) {
            a = Elu<alpha = 0.0>(x)
            b = Elu<alpha = -0.0>(x)
            c = Sub(a, b)
            d = Sub(b, a)
            y = Div(c, d)
        }""",
        DUPLICATE_CODE,
        None,
    )


def test_an_output_of_the_graph_takes_the_place_of_an_inner_value():
    check(
        "g (float[N] x) => (float[N] y, float[N] z) { a = Neg(x) z = Neg(x) y = Abs(a) }",
        DUPLICATE_CODE,
        ["z = Neg(x)", "y = Abs(z)"],
    )


def test_two_outputs_of_the_graph_stay_two():
    check("g (float[N] x) => (float[N] y, float[N] z) { y = Neg(x) z = Neg(x) }", DUPLICATE_CODE, None)


def test_random_numbers_are_drawn_twice():
    model = parse(
        """g (float[3] x) => (float[3] y) {
            a = RandomNormalLike(x)
            b = RandomNormalLike(x)
            c = Bernoulli(x)
            d = Bernoulli(x)
            y = Sum(a, b, c, d)
        }"""
    )
    assert apply(model, DUPLICATE_CODE) == ""


def test_dropout_in_training_is_random():
    model = parse(
        """g (float[3] x, bool t) => (float[3] y) <float r = {0.5}> {
            a = Dropout(x, r, t)
            b = Dropout(x, r, t)
            y = Add(a, b)
        }"""
    )
    assert apply(model, DUPLICATE_CODE) == ""


def test_an_output_that_was_not_asked_for_is_not_used():
    check(
        """g (float[1, 1, N] x) => (float[1, 1, M] y, int64[1, 1, M] z) {
            a = MaxPool<kernel_shape = [1]>(x)
            b, z = MaxPool<kernel_shape = [1]>(x)
            y = Add(a, b)
        }""",
        DUPLICATE_CODE,
        None,
    )


def test_operators_of_unknown_domains_may_have_effects():
    model = parse(
        """<ir_version: 10, opset_import: ["" : 21, "my.own" : 1]>
        g (float[N] x) => (float[N] y) { a = my.own.Draw(x) b = my.own.Draw(x) y = Add(a, b) }"""
    )
    assert apply(model, DUPLICATE_CODE) == ""


def test_nodes_inside_branches_merge_among_themselves():
    check(
        """g (bool c, float[2] x) => (float[2] y) {
            y = If(c) <
                then_branch = t () => (float[2] a) { p = Abs(x) q = Abs(x) a = Mul(p, q) },
                else_branch = f () => (float[2] b) { b = Abs(x) }
            >
        }""",
        DUPLICATE_CODE,
        ["y = If(c) {else_branch=['b = Abs(x)'], then_branch=['t0 = Abs(x)', 'a = Mul(t0, t0)']}"],
    )
