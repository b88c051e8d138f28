"""What the recurrent operators share: activations, directions, lengths, and the loop over steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.cpu.fused_activation import hard_sigmoid, leaky_relu, relu, sigmoid
from onnxgen.graph.ep.node import NodeSpec

Activation = Callable[[np.ndarray], np.ndarray]
State = tuple[np.ndarray, ...]
"""Hidden state ``[batch, hidden]``, and the cell state where there is one."""

Step = Callable[[np.ndarray, State], State]
"""From the projected input of one step ``[batch, gates * hidden]`` and the state to the new state."""


def affine(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """``alpha * x + beta``."""
    return alpha * x + beta


def thresholded_relu(x: np.ndarray, alpha: float) -> np.ndarray:
    """``x`` where it is above ``alpha``, else 0."""
    return np.where(x > alpha, x, 0)


def scaled_tanh(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """``alpha * tanh(beta * x)``."""
    return alpha * np.tanh(beta * x)


def elu(x: np.ndarray, alpha: float) -> np.ndarray:
    """``x``, and ``alpha * (exp(x) - 1)`` below 0."""
    return np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0)))


def softsign(x: np.ndarray) -> np.ndarray:
    """``x / (1 + abs(x))``."""
    return x / (1 + np.abs(x))


def softplus(x: np.ndarray) -> np.ndarray:
    """``log(1 + exp(x))``."""
    return np.logaddexp(x, x.dtype.type(0))


# Function, and the defaults of its alpha and beta; an operator's lists give them in the order of the functions.
_ACTIVATIONS: dict[str, tuple[Callable[..., np.ndarray], tuple[float, ...]]] = {
    "relu": (relu, ()),
    "tanh": (np.tanh, ()),
    "sigmoid": (sigmoid, ()),
    "softsign": (softsign, ()),
    "softplus": (softplus, ()),
    "leakyrelu": (leaky_relu, (0.01,)),
    "thresholdedrelu": (thresholded_relu, (1.0,)),
    "elu": (elu, (1.0,)),
    "affine": (affine, (1.0, 0.0)),
    "scaledtanh": (scaled_tanh, (1.0, 1.0)),
    "hardsigmoid": (hard_sigmoid, (0.2, 0.5)),
}


@dataclass(frozen=True, slots=True)
class RecurrentSpec:
    """What a recurrent node says.

    Attributes:
        reverse: For each direction whether it runs from the end.
        activations: For each direction its activation functions, in the operator's order.
        clip: Bound of what goes into the activations of gates; None for none.
        batch_first: Whether the batch is the first axis of every tensor.
    """

    reverse: tuple[bool, ...]
    activations: tuple[tuple[Activation, ...], ...]
    clip: float | None
    batch_first: bool

    @classmethod
    def of(cls, node: NodeSpec, defaults: Sequence[str]) -> RecurrentSpec:
        """Read a node; ``defaults`` are the activations of one direction.

        Raises:
            InvalidGraphError: for an unknown direction or activation, or too few of them.
        """
        directions = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
        direction = node.attr("direction", "forward")
        if direction not in directions:
            raise InvalidGraphError(f"{node} has direction {direction!r}; known are {', '.join(directions)}")
        reverse = directions[direction]
        names = node.attr("activations") or tuple(defaults) * len(reverse)
        if len(names) != len(defaults) * len(reverse):
            raise InvalidGraphError(
                f"{node} has {len(names)} activations; {len(reverse)} directions of it need"
                f" {len(defaults) * len(reverse)}"
            )
        alphas, betas = list(node.attr("activation_alpha", ())), list(node.attr("activation_beta", ()))
        functions = [_activation(node, name, alphas, betas) for name in names]
        count = len(defaults)
        clip = node.attr("clip")
        return cls(
            reverse=reverse,
            activations=tuple(tuple(functions[d * count : (d + 1) * count]) for d in range(len(reverse))),
            clip=clip if clip else None,
            batch_first=node.attr("layout", 0) == 1,
        )

    def clipped(self, x: np.ndarray) -> np.ndarray:
        """What goes into an activation, within the bound."""
        return x if self.clip is None else np.clip(x, -self.clip, self.clip)


def _activation(node: NodeSpec, name: str, alphas: list[float], betas: list[float]) -> Activation:
    if name.lower() not in _ACTIVATIONS:
        raise InvalidGraphError(f"{node} has activation {name!r}; known are {', '.join(_ACTIVATIONS)}")
    function, defaults = _ACTIVATIONS[name.lower()]
    if not defaults:
        return function
    bound = [
        values.pop(0) if values else default
        for values, default in zip((alphas, betas), defaults, strict=False)
    ]
    return lambda x: function(x, *map(x.dtype.type, bound))


def scan(
    projected: np.ndarray, state: State, step: Step, *, lengths: np.ndarray | None, reverse: bool
) -> tuple[np.ndarray, State]:
    """Run one direction.

    Args:
        projected: Input of every step times the input weights, ``[steps, batch, gates * hidden]``.
        state: Before the first step.
        step: One step.
        lengths: Steps of each sequence, ``[batch]``; None when all have every step. After its end a sequence keeps
            its state and its outputs are 0.
        reverse: Run from the end of each sequence to its start.

    Returns:
        Hidden states ``[steps, batch, hidden]`` and the state after the last step.
    """
    steps = range(len(projected))
    y = np.zeros((len(projected), *state[0].shape), projected.dtype)
    for t in reversed(steps) if reverse else steps:
        new = step(projected[t], state)
        if lengths is None:
            y[t], state = new[0], new
            continue
        active = (t < lengths)[:, None]
        y[t] = np.where(active, new[0], 0)
        state = tuple(np.where(active, after, before) for after, before in zip(new, state, strict=True))
    return y, state
