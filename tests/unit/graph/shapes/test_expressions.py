import math
from fractions import Fraction

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.shapes import compile_sizes, size_source, symbols_in

unhurried = settings(max_examples=60, deadline=None)
sizes = st.integers(0, 50)


def expressions():
    leaves = st.sampled_from(["n", "past", "seq"]) | st.integers(0, 9).map(str)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            st.tuples(inner, st.integers(1, 7)).map(lambda t: f"{t[0]}/{t[1]}"),
            st.tuples(inner, st.integers(1, 7)).map(lambda t: f"floor({t[0]}/{t[1]})"),
            st.tuples(inner, st.integers(1, 7)).map(lambda t: f"ceiling({t[0]}/{t[1]})"),
            st.tuples(inner, inner).map(lambda t: f"Max({t[0]}, {t[1]})"),
            st.tuples(inner, inner).map(lambda t: f"Min({t[0]}, {t[1]})"),
            inner.map(lambda t: f"({t})**2"),
        ),
        max_leaves=8,
    )


def exact(text, values):
    names = {"floor": math.floor, "ceiling": math.ceil, "Max": max, "Min": min}
    source = text
    for digit in "0123456789":
        source = source.replace(digit, f"F{digit}")
    source = source.replace("**F2", "**2")
    return math.floor(eval(source, {**names, **{f"F{d}": Fraction(d) for d in range(10)}, **values}))


@unhurried
@given(expressions(), sizes, sizes, sizes)
def test_sizes_are_those_of_exact_arithmetic(text, n, past, seq):
    values = {"n": Fraction(n), "past": Fraction(past), "seq": Fraction(seq)}
    assert compile_sizes([text], ["n", "past", "seq"])(n, past, seq) == (exact(text, values),)


@unhurried
@given(expressions(), sizes, sizes, sizes)
def test_what_sympy_writes_is_read_back(text, n, past, seq):
    symbols = {name: sympy.Symbol(name, integer=True, nonnegative=True) for name in ("n", "past", "seq")}
    written = str(sympy.sympify(text, locals=symbols))
    assert compile_sizes([written], list(symbols))(n, past, seq) == compile_sizes([text], list(symbols))(
        n, past, seq
    )


@pytest.mark.parametrize(
    "name", ["batch size", "N/2", "lambda", "a.b.0", "größe", "?", "Max", "x-1", "s0", "_s0"]
)
def test_any_text_can_be_a_symbol(name):
    assert compile_sizes([name, f"{name} + 1", f"2*{name}"], [name, "n"])(6, 1) == (6, 7, 12)


def test_a_symbol_inside_another_name_stays_apart():
    symbols = ["n", "n.n", "nn", "seq", "past seq"]
    assert compile_sizes(["n.n*nn + n + past seq*seq"], symbols)(1, 10, 100, 7, 1000) == (8001,)


def test_integers_stand_for_themselves():
    assert compile_sizes([3, "n", 0], ["n"])(5) == (3, 5, 0)
    assert compile_sizes([], [])() == ()


@pytest.mark.parametrize(
    "text",
    [
        "m + 1",
        "n +",
        "__import__('os')",
        "n.real",
        "n if n else 1",
        "9**9**9",
        "n**99999999",
        "n**n",
        "'a'*9",
        "1.5*n",
        "floor()",
        "sin(n)",
        "(" * 5000 + "n" + ")" * 5000,
        "-" * 19000 + "n",
        "n" * 30000,
        "",
        "n\0",
        "True",
    ],
)
def test_other_texts_are_refused(text):
    with pytest.raises(InvalidGraphError, match="size"):
        compile_sizes([text], ["n"])


def test_the_message_names_the_known_symbols():
    with pytest.raises(InvalidGraphError, match="known symbols: batch, seq"):
        compile_sizes(["total"], ["seq", "batch"])


def test_source_uses_the_given_names():
    assert size_source("floor(3*n/2 + 1/2)", {"n": "sizes[0]"}) == "(((3 * sizes[0]) + 1) // 2)"
    assert size_source("past + seq", {"past": "p", "seq": "s"}) == "(p + s)"


def test_symbols_of_an_expression():
    assert symbols_in("Max(past + seq, floor(n/2))") == {"past", "seq", "n"}
    assert symbols_in(4) == set()
