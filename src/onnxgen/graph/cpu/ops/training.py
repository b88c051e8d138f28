"""Steps of optimizers: Adagrad, Adam, Momentum of ``ai.onnx.preview.training``.

Inputs are the rate R, the count of updates T, then n tensors of every kind: X1 .. Xn, G1 .. Gn, states ...
Outputs are the new tensors X and states in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

DOMAIN = "ai.onnx.preview.training"

Step = Callable[..., tuple[Any, ...]]
"""``f(rate, count, x, gradient, *states)``: the new x and states."""


def _each(node: NodeSpec, num_kinds: int, step: Step) -> Kernel:
    def run(rate: np.ndarray, count: np.ndarray, *tensors: np.ndarray) -> Any:
        num_tensors = len(tensors) // num_kinds
        kinds = [tensors[start : start + num_tensors] for start in range(0, len(tensors), num_tensors)]
        updated = [step(float(rate), int(count), *group) for group in zip(*kinds, strict=True)]
        outputs = tuple(
            np.asarray(value, tensors[0].dtype) for kind in zip(*updated, strict=True) for value in kind
        )
        return outputs if len(node.outputs) > 1 else outputs[0]

    return Kernel(run)


@TABLE.operator("Adagrad", 1, domain=DOMAIN)
def adagrad(node: NodeSpec) -> Kernel:
    """The step divided by the root of all squared gradients so far."""
    decay_factor, epsilon = node.attr("decay_factor", 0.0), node.attr("epsilon", 1e-6)
    norm = node.attr("norm_coefficient", 0.0)

    def step(rate: float, count: int, x: Any, gradient: Any, squares: Any) -> tuple[Any, ...]:
        rate = rate / (1 + count * decay_factor)
        gradient = norm * x + gradient
        squares = squares + gradient * gradient
        return x - rate * gradient / (np.sqrt(squares) + epsilon), squares

    return _each(node, 3, step)


@TABLE.operator("Adam", 1, domain=DOMAIN)
def adam(node: NodeSpec) -> Kernel:
    """The step by running averages of gradients and their squares."""
    alpha, beta, epsilon = node.attr("alpha", 0.9), node.attr("beta", 0.999), node.attr("epsilon", 1e-8)
    norm, norm_post = node.attr("norm_coefficient", 0.0), node.attr("norm_coefficient_post", 0.0)

    def step(rate: float, count: int, x: Any, gradient: Any, mean: Any, square: Any) -> tuple[Any, ...]:
        gradient = norm * x + gradient
        mean = alpha * mean + (1 - alpha) * gradient
        square = beta * square + (1 - beta) * gradient * gradient
        if count > 0:
            rate = rate * (1 - beta**count) ** 0.5 / (1 - alpha**count)
        x = x - rate * mean / (np.sqrt(square) + epsilon)
        return (1 - norm_post) * x, mean, square

    return _each(node, 4, step)


@TABLE.operator("Momentum", 1, domain=DOMAIN)
def momentum(node: NodeSpec) -> Kernel:
    """The step along a running sum of gradients, ``standard`` or ``nesterov``."""
    alpha, beta, norm = node.attr("alpha"), node.attr("beta"), node.attr("norm_coefficient")
    nesterov = node.attr("mode") == "nesterov"

    def step(rate: float, count: int, x: Any, gradient: Any, velocity: Any) -> tuple[Any, ...]:
        gradient = norm * x + gradient
        velocity = alpha * velocity + (beta if count > 0 else 1.0) * gradient
        return x - rate * (gradient + alpha * velocity if nesterov else velocity), velocity

    return _each(node, 3, step)
