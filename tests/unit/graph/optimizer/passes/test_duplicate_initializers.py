import numpy as np
import onnx_ir as ir

from graph_passes import apply, check, parse
from onnxgen.graph.optimizer.passes.duplicate_initializers import DUPLICATE_INITIALIZERS


def test_equal_tensors_become_one():
    text = """g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {1, 2}> {
        c = Add(x, a)
        y = Mul(c, b)
    }"""
    model = parse(text)
    assert apply(model, DUPLICATE_INITIALIZERS) == "1 duplicate initializers merged"
    assert list(model.graph.initializers) == ["a"]
    assert model.graph[1].inputs[1] is model.graph.initializers["a"]


def test_values_equal_in_another_type_shape_or_sign_stay_apart():
    check(
        """g (float[1] x) => (float[1] y, float[1] z, double[1] w)
        <float[1] a = {0}, float[1] b = {-0.0}, float s = {0}, double[1] d = {0}> {
            y = Add(x, a)
            e = Add(x, s)
            z = Div(e, b)
            w = Neg(d)
        }""",
        DUPLICATE_INITIALIZERS,
        None,
    )


def test_initializers_that_can_be_fed_stay_apart():
    check(
        """g (float[1] x, float[1] a) => (float[1] y) <float[1] a = {1}, float[1] b = {1}> {
            c = Add(x, a)
            y = Add(c, b)
        }""",
        DUPLICATE_INITIALIZERS,
        None,
        feeds={"a": np.float32([5])},
    )


def test_strings_are_compared_as_strings():
    model = parse("g (float[1] x) => (float[1] y) { y = Neg(x) }")
    for name, text in {"a": b"one", "b": b"one", "c": b"two"}.items():
        value = ir.Value(name=name, const_value=ir.StringTensor([text], shape=ir.Shape([1])))
        model.graph.initializers.add(value)
    model.graph.outputs.append(model.graph.initializers["c"])
    assert apply(model, DUPLICATE_INITIALIZERS) == "1 duplicate initializers merged"
    assert list(model.graph.initializers) == ["a", "c"]
