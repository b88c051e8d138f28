"""What the recurrent operators share: activations, directions, lengths, and the loop over steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.activation_functions import Activation, activation, num_params
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.ep.node import NodeSpec

State = tuple[np.ndarray, ...]
"""Hidden state ``[batch, hidden]``, and the cell state where there is one."""

Step = Callable[[np.ndarray, State], State]
"""From the projected input of one step ``[batch, gates * hidden]`` and the state to the new state."""


Project = Callable[[np.ndarray], np.ndarray]
"""``[..., features]`` times weights, ``[..., gates * hidden]``."""


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


def require_fit(
    node: NodeSpec,
    spec: RecurrentSpec,
    x: np.ndarray,
    weights: tuple[np.ndarray, np.ndarray],
    b: np.ndarray | None,
    lengths: np.ndarray | None,
    states: Sequence[np.ndarray | None],
    *,
    gates: int,
) -> None:
    """Check the shapes of a layer's inputs, which compiled loops trust.

    Args:
        node: For messages.
        spec: What it says.
        x: ``[steps, batch, features]``, or with the batch first.
        weights: ``[directions, gates * hidden, features]`` and ``[directions, gates * hidden, hidden]``.
        b: ``[directions, 2 * gates * hidden]``.
        lengths: ``[batch]``, from 0 to ``steps``.
        states: ``[directions, batch, hidden]`` each, or with the batch first.
        gates: 4 of LSTM, 3 of GRU, 1 of RNN.

    Raises:
        KernelError: one of them does not fit the others, or the node's ``hidden_size``.
    """
    w, r = weights
    directions, hidden = len(spec.reverse), r.shape[-1]
    batch, steps = (x.shape[0], x.shape[1]) if spec.batch_first else (x.shape[1], x.shape[0])
    state = (batch, directions, hidden) if spec.batch_first else (directions, batch, hidden)
    expected = [
        ("W", w, (directions, gates * hidden, x.shape[2])),
        ("R", r, (directions, gates * hidden, node.attr("hidden_size", hidden))),
        ("B", b, (directions, 2 * gates * hidden)),
        ("sequence_lens", lengths, (batch,)),
        *(("initial state", value, state) for value in states),
    ]
    for name, value, shape in expected:
        if value is not None and value.shape != shape:
            raise KernelError(
                f"{node}: {name} is of shape {value.shape}, expected {shape} for an input {x.shape}"
            )
    if lengths is not None and lengths.size and not 0 <= lengths.min() <= lengths.max() <= steps:
        raise KernelError(f"{node}: sequence_lens {lengths.tolist()} are not all from 0 to {steps}")


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


def projections(w: np.ndarray, biases: np.ndarray | None) -> list[Project]:
    """For each direction the product with ``w [directions, rows, features]`` transposed, plus a bias."""
    wide = widened(w)

    def project(d: int) -> Project:
        matrix, bias = wide[d].T, 0 if biases is None else biases[d]

        def apply(x: np.ndarray) -> np.ndarray:
            return x @ matrix + bias

        return apply

    return [project(d) for d in range(len(wide))]


def run_directions(
    node: NodeSpec,
    spec: RecurrentSpec,
    x: np.ndarray,
    inputs: list[Project],
    steps: list[Step],
    lengths: np.ndarray | None,
    initial: tuple[np.ndarray | None, ...],
    hidden: int,
) -> np.ndarray | tuple[np.ndarray | None, ...]:
    """Run each direction; ``Y``, ``Y_h`` and, with a second state, ``Y_c``, as many as the node names."""
    sequence = batch_second(spec, widened(x))  # [steps, batch, features]
    count, batch = sequence.shape[:2]
    if lengths is not None and (lengths >= count).all():
        lengths = None
    outputs: list[np.ndarray] = []
    finals: list[State] = []
    for d, reverse in enumerate(spec.reverse):
        projected = inputs[d](sequence.reshape(count * batch, -1)).reshape(count, batch, -1)
        state = tuple(
            np.zeros((batch, hidden), sequence.dtype)
            if first is None
            else batch_second(spec, widened(first))[d]
            for first in initial
        )
        y, final = scan(projected, state, steps[d], lengths=lengths, reverse=reverse)
        outputs.append(y)
        finals.append(final)
    results = [np.stack(outputs, 1)]  # [steps, directions, batch, hidden]
    results += [np.stack(states) for states in zip(*finals, strict=True)]  # [directions, batch, hidden]
    return wanted_outputs(node, spec, results, x.dtype)


def batch_second(spec: RecurrentSpec, x: np.ndarray) -> np.ndarray:
    """``x`` with the batch as its second axis; a view."""
    return x.swapaxes(0, 1) if spec.batch_first else x


def wanted_outputs(
    node: NodeSpec, spec: RecurrentSpec, results: list[np.ndarray], dtype: np.dtype
) -> np.ndarray | tuple[np.ndarray | None, ...]:
    """The outputs that the node has, of ``Y [steps, directions, batch, hidden]`` and the last states."""
    if spec.batch_first:
        results = [results[0].transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in results[1:])]
    wanted = tuple(
        np.ascontiguousarray(value).astype(dtype, copy=False) if node.wants_output(index) else None
        for index, value in enumerate(results[: len(node.outputs)])
    )
    if len(wanted) == 1:
        assert wanted[0] is not None
        return wanted[0]
    return wanted
