"""Element-wise functions of rows, gates and quantization, against float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.row_kernels import (
    binary_kernel,
    gated_kernel,
    parts_of_elements,
    quantize_kernel,
    unary_kernel,
)
from row_runs import NOTHING, ROWS, Quantized, rows_at, run, strided

AMOUNT = 1.702


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


FUNCTIONS = {
    "silu": lambda x: x * _sigmoid(x),
    "gelu": lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / 2**0.5)),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "quick_gelu": lambda x: x * _sigmoid(AMOUNT * x),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "exp": np.exp,
    "relu": lambda x: np.maximum(x, 0),
    "relu_squared": lambda x: np.maximum(x, 0) ** 2,
    "soft_cap": lambda x: AMOUNT * np.tanh(x / AMOUNT),
    "scale": lambda x: AMOUNT * x,
}
OPERATIONS = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
WIDTHS = [1, 16, 33, 512, 1100]


def _unary(name, x, parts=1):
    y = strided(np.full_like(x, 7), 1)
    run(
        unary_kernel(name),
        len(x),
        parts=parts,
        rows=ROWS,
        width=x.shape[1],
        amount=AMOUNT,
        **rows_at("x", x),
        **rows_at("y", y),
    )
    return y


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_element(name, width):
    x = strided(fresh_rng().standard_normal((3, width)).astype(np.float32) * 3)
    wanted = FUNCTIONS[name](x.astype(np.float64))
    assert (
        np.abs(_unary(name, x, parts=4) - wanted) <= 1e-6 + 1e-6 * np.maximum(np.abs(x), np.abs(wanted))
    ).all()


@pytest.mark.parametrize("name", ["silu", "gelu", "gelu_tanh", "tanh", "relu", "relu_squared", "soft_cap"])
def test_nan_stays_nan_and_nothing_else_becomes_it(name):
    x = np.float32([[np.nan, -np.inf, np.inf, -3e38, 3e38, 0]])
    (nan, *rest) = _unary(name, x)[0]
    assert np.isnan(nan) and not np.isnan(rest).any()


def test_a_function_may_be_computed_in_place():
    x = fresh_rng().standard_normal((2, 70)).astype(np.float32)
    wanted = _unary("silu", x)
    arguments = {"rows": ROWS, "width": 70, "amount": 1.0}
    run(unary_kernel("silu"), 2, **arguments, **rows_at("x", x), **rows_at("y", x))
    np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize("one_row", [False, True])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_on_two_rows_or_on_one_for_all(name, one_row):
    rng = fresh_rng()
    for width in WIDTHS:
        x, other = (strided(rng.standard_normal((4, width)).astype(np.float32)) for _ in range(2))
        places = rows_at("other", other) | ({"other_stride": 0} if one_row else {})
        y = np.zeros((4, width), np.float32)
        run(
            binary_kernel(name),
            4,
            parts=3,
            rows=ROWS,
            width=width,
            **rows_at("x", x),
            **places,
            **rows_at("y", y),
        )
        np.testing.assert_array_equal(y, OPERATIONS[name](x, other[:1] if one_row else other))


def _gated(function, both, *, quantized=None, group=32, parts=1, floats=True):
    rows, width = len(both), both.shape[1] // 2
    y = np.full((rows, width), 7, np.float32)
    integers = Quantized.empty(rows, width, quantized, group) if quantized else None
    run(
        gated_kernel(function, quantized=quantized, group=group),
        rows,
        parts=parts,
        rows=ROWS,
        width=width,
        amount=AMOUNT,
        **rows_at("gate", both),
        **rows_at("up", both[:, width:]),
        **(rows_at("y", y) if floats else {"y": 0, "y_stride": 0}),
        **(integers.arguments() if integers else NOTHING),
    )
    return y, integers


@pytest.mark.parametrize("function", ["silu", "gelu", "gelu_tanh", "quick_gelu", "relu", "sigmoid"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_gate_lets_through_its_neighbour_in_the_same_rows(function, width):
    both = strided(fresh_rng().standard_normal((3, 2 * width)).astype(np.float32) * 2)
    gate, up = both[:, :width].astype(np.float64), both[:, width:].astype(np.float64)
    y, _ = _gated(function, both, parts=2)
    # An error function has an error of its own, which gate and neighbour multiply.
    assert (np.abs(y - FUNCTIONS[function](gate) * up) <= 1e-6 + 1e-6 * np.abs(gate * up)).all()


@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize(("elements", "group"), [("int8", 32), ("int16", 32), ("int8", 16), ("int16", 16)])
@pytest.mark.parametrize("width", [8, 100, 512, 700, 1536])
def test_what_a_gate_lets_through_is_quantized(width, elements, group, floats):
    both = fresh_rng().standard_normal((3, 2 * width)).astype(np.float32)
    plain, _ = _gated("silu", both)
    y, integers = _gated("silu", both, quantized=elements, group=group, parts=5, floats=floats)
    integers.check(plain)
    np.testing.assert_array_equal(y, plain if floats else np.full_like(y, 7))


@pytest.mark.parametrize("width", [100, 1600])
def test_a_row_has_the_same_bits_alone_and_among_others(width):
    both = fresh_rng().standard_normal((9, 2 * width)).astype(np.float32)
    y, integers = _gated("gelu_tanh", both, quantized="int8")
    for parts in (2, 7, 30):
        again, integers_again = _gated("gelu_tanh", both, quantized="int8", parts=parts)
        np.testing.assert_array_equal(again.view(np.uint32), y.view(np.uint32))
        np.testing.assert_array_equal(integers_again.q, integers.q)
    for row in range(9):
        alone, of_one = _gated("gelu_tanh", both[row : row + 1], quantized="int8", parts=3)
        np.testing.assert_array_equal(alone.view(np.uint32), y[row : row + 1].view(np.uint32))
        np.testing.assert_array_equal(of_one.q, integers.q[row : row + 1])


def _quantize(x, elements, group, parts=1):
    integers = Quantized.empty(*x.shape, elements, group)
    arguments = {"rows": ROWS, "width": x.shape[1], **rows_at("x", x), **integers.arguments()}
    run(quantize_kernel(elements, group), len(x), parts=parts, **arguments)
    return integers


@pytest.mark.parametrize("group", [16, 32, 128])
@pytest.mark.parametrize("elements", ["int8", "int16"])
@pytest.mark.parametrize("width", [5, 32, 96, 577, 1500])
def test_integers_are_the_nearest_ones(width, elements, group):
    x = strided(fresh_rng().standard_normal((4, width)).astype(np.float32) * 100)
    _quantize(x, elements, group, parts=3).check(x)


def test_halves_go_to_the_even_neighbour():
    x = np.zeros((1, 32), np.float32)
    x[0, :6] = 127, 0.5, 1.5, 2.5, -0.5, -1.5
    integers = _quantize(x, "int8", 32)
    np.testing.assert_array_equal(integers.q[0, :6], [127, 0, 2, 2, 0, -2])
    assert integers.total[0, 0] == 129


def test_zeros_and_tiny_groups_are_zero_and_infinite_ones_say_so():
    x = np.zeros((1, 128), np.float32)
    x[0, 32:64] = 1e-40
    x[0, 70], x[0, 100] = np.inf, np.nan
    integers = _quantize(x, "int16", 32)
    np.testing.assert_array_equal(integers.q[0, :64], 0)
    assert integers.scale[0, 0] == 0 and integers.scale[0, 2] == np.inf and np.isnan(integers.scale[0, 3])


def test_small_work_is_one_part_and_a_long_row_many():
    assert parts_of_elements(1, 4000) == 1
    assert parts_of_elements(1, 32768) == 4
    assert parts_of_elements(0, 10) == 1
