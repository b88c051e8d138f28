"""Products of quantized activations with packed matrices: their value, and that a row's bits are its own."""

from __future__ import annotations

import numpy as np
import pytest

from block_products import Activations, multiply, random_matrix, weights_of
from kernel_runs import fresh_rng
from onnxgen.graph.cpu.packed_blocks import pack

FORMATS = [
    (4, 32, "middle", False),
    (4, 32, "middle", True),
    (4, 32, "bytes", False),
    (4, 64, "offsets", False),
    (4, 16, "bytes", True),
    (2, 128, "bytes", False),
    (2, 16, "middle", True),
    (8, 256, "bytes", True),
    (8, 32, "offsets", True),
    (8, 32, "middle", False),
]


def relative(error, value):
    """Root mean square of an error, relative to that of the value."""
    return np.sqrt((error**2).mean() / (value**2).mean())


@pytest.mark.parametrize(("bits", "block", "zeros", "words"), FORMATS)
def test_products_are_those_of_the_definition(bits, block, zeros, words):
    rng = fresh_rng()
    unpack_from = (None, 1)[rng.integers(2)]
    for rows, columns, depth in ((1, 70, 300), (3, 16, 64), (20, 200, 500)):
        matrix = random_matrix(rng, columns, depth, bits, block, zeros)
        packed = pack([matrix], words=words)
        x = rng.standard_normal((rows, depth)).astype(np.float32)
        quantized = Activations(x, packed.form.group, words=words)
        y = multiply(packed, quantized, unpack_from=unpack_from)
        same_numbers = quantized.values(depth) @ packed.dequantized().astype(float).T
        assert relative(y - same_numbers, same_numbers) < 1e-6
        exact = x.astype(float) @ weights_of(matrix).T
        assert relative(y - exact, exact) < (1e-4 if words else 2e-2)


@pytest.mark.parametrize(("bits", "block", "zeros", "words"), FORMATS[:4])
def test_the_bits_of_a_row_are_its_own(bits, block, zeros, words):
    rng = fresh_rng()
    packed = pack([random_matrix(rng, 150, 700, bits, block, zeros)], words=words)
    x = rng.standard_normal((40, 700)).astype(np.float32)

    def rows(first, last, **how):
        return multiply(packed, Activations(x[first:last], packed.form.group, words=words), **how)

    expected = rows(0, 40)
    for count in range(1, 40):
        first = int(rng.integers(0, 40 - count))
        parts = int(rng.integers(1, 12))
        unpack_from = (None, 1)[rng.integers(2)]
        y = rows(first, first + count, parts=parts, threads=2, unpack_from=unpack_from)
        np.testing.assert_array_equal(y, expected[first : first + count])


def test_extreme_activations_do_not_overflow():
    rng = fresh_rng()
    for bits, block, words in ((8, 32, True), (8, 32, False), (4, 32, False)):
        matrix = random_matrix(rng, 64, 128, bits, block, "bytes")
        matrix.codes[:] = 255
        matrix.zeros[:] = 0
        packed = pack([matrix], words=words)
        x = np.repeat(np.array([[-1], [1]], np.float32), 128, axis=1)
        expected = x.astype(float) @ weights_of(matrix).T
        np.testing.assert_allclose(multiply(packed, Activations(x, words=words)), expected, rtol=1e-5)


def test_rows_of_zeros_give_zeros():
    packed = pack([random_matrix(fresh_rng(), 64, 64)])
    assert (multiply(packed, Activations(np.zeros((9, 64), np.float32))) == 0).all()


def test_bias_and_residual_are_added_in_that_order():
    rng = fresh_rng()
    packed = pack([random_matrix(rng, 90, 64)])
    bias = np.zeros(128, np.float32)
    bias[:90] = rng.standard_normal(90)
    for rows in (1, 4, 11):
        quantized = Activations(rng.standard_normal((rows, 64)).astype(np.float32))
        onto = rng.standard_normal((rows, 90)).astype(np.float32)
        plain = multiply(packed, quantized)
        np.testing.assert_array_equal(multiply(packed, quantized, bias=bias), plain + bias[:90])
        np.testing.assert_array_equal(multiply(packed, quantized, onto=onto), onto + plain)
        both = multiply(packed, quantized, onto=onto, bias=bias, parts=5)
        np.testing.assert_array_equal(both, onto + (plain + bias[:90]))


GATED = {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "identity": lambda x: x,
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
}


@pytest.mark.parametrize("gate", GATED)
def test_a_gate_multiplies_what_it_gates(gate):
    rng = fresh_rng()
    for columns in (64, 44):
        matrices = [random_matrix(rng, columns, 96) for _ in range(2)]
        packed = pack(matrices, interleave=True)
        separate = [pack([matrix]) for matrix in matrices]
        for rows in (1, 3, 20):
            quantized = Activations(rng.standard_normal((rows, 96)).astype(np.float32))
            left, right = (multiply(matrix, quantized).astype(float) for matrix in separate)
            for parts in (1, 5):
                y = multiply(packed, quantized, gate=gate, parts=parts)
                np.testing.assert_allclose(y, GATED[gate](left) * right, rtol=2e-6, atol=1e-7)


def test_the_bias_of_a_gate_lies_like_its_tiles():
    rng = fresh_rng()
    matrices = [random_matrix(rng, 48, 64) for _ in range(2)]
    bias = rng.standard_normal((2, 48)).astype(np.float32)
    turns = np.zeros((4, 2, 16), np.float32)
    turns[:3] = bias.reshape(2, 3, 16).swapaxes(0, 1)
    packed, separate = pack(matrices, interleave=True), [pack([matrix]) for matrix in matrices]
    for rows, parts in ((1, 5), (8, 1)):
        quantized = Activations(rng.standard_normal((rows, 64)).astype(np.float32))
        left, right = (multiply(matrix, quantized) + own for matrix, own in zip(separate, bias, strict=True))
        y = multiply(packed, quantized, gate="relu", bias=turns.reshape(-1), parts=parts)
        np.testing.assert_array_equal(y, np.maximum(left, 0) * right)
