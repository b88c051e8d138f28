"""What the recurrent operators share: activations, directions, lengths, and the loop over steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.cpu.activation_functions import Activation, activation, num_params
from onnxgen.graph.ep.node import NodeSpec

State = tuple[np.ndarray, ...]
"""Hidden state ``[batch, hidden]``, and the cell state where there is one."""

Step = Callable[[np.ndarray, State], State]
"""From the projected input of one step ``[batch, gates * hidden]`` and the state to the new state."""


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
        functions = [_next_activation(node, name, alphas, betas) for name in names]
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


def _next_activation(node: NodeSpec, name: str, alphas: list[float], betas: list[float]) -> Activation:
    lists = (alphas, betas)[: num_params(node, name)]
    return activation(node, name, [values.pop(0) for values in lists if values])


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
