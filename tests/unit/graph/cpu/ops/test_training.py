"""Adagrad, Adam, Momentum."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu

DOMAIN = "ai.onnx.preview.training"


def given(count: int, kinds: int, tensors: int = 1) -> list[np.ndarray]:
    rng = fresh_rng()
    values = [rng.random((3, 2)).astype(np.float32) for _ in range(kinds * tensors)]
    return [np.array(0.1, np.float32), np.array(count, np.int64), *values]


def test_adagrad_divides_by_all_gradients_so_far():
    inputs = given(3, 3)
    x, gradient, squares = (v.astype(np.float64) for v in inputs[2:])
    options = {"norm_coefficient": 0.01, "decay_factor": 0.1, "epsilon": 1e-3}
    gradient = gradient + 0.01 * x
    squares = squares + gradient**2
    expected = x - 0.1 / (1 + 3 * 0.1) * gradient / (np.sqrt(squares) + 1e-3)
    got = run_cpu("Adagrad", *inputs, domain=DOMAIN, outputs=2, **options)
    assert_same(got, (expected.astype(np.float32), squares.astype(np.float32)))


@pytest.mark.parametrize("count", [0, 4])
def test_adam_corrects_its_averages_after_the_first_update(count):
    inputs = given(count, 4)
    x, gradient, mean, square = (v.astype(np.float64) for v in inputs[2:])
    mean, square = 0.8 * mean + 0.2 * gradient, 0.9 * square + 0.1 * gradient**2
    rate = 0.1 * np.sqrt(1 - 0.9**count) / (1 - 0.8**count) if count else 0.1
    expected = (1 - 0.05) * (x - rate * mean / (np.sqrt(square) + 1e-2))
    options = {"alpha": 0.8, "beta": 0.9, "epsilon": 1e-2, "norm_coefficient_post": 0.05}
    got = run_cpu("Adam", *inputs, domain=DOMAIN, outputs=3, **options)
    assert_same(got, tuple(v.astype(np.float32) for v in (expected, mean, square)))


@pytest.mark.parametrize("mode", ["standard", "nesterov"])
def test_momentum_updates_several_tensors(mode):
    inputs = given(1, 3, tensors=2)
    options = {"alpha": 0.9, "beta": 0.5, "norm_coefficient": 0.0, "mode": mode}
    got = run_cpu("Momentum", *inputs, domain=DOMAIN, outputs=4, **options)
    for tensor in range(2):
        x, gradient, velocity = (v.astype(np.float64) for v in inputs[2 + tensor :: 2])
        velocity = 0.9 * velocity + 0.5 * gradient
        step = gradient + 0.9 * velocity if mode == "nesterov" else velocity
        assert_same(got[tensor], (x - 0.1 * step).astype(np.float32))
        assert_same(got[2 + tensor], velocity.astype(np.float32))
