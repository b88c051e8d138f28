"""RNN, GRU and LSTM: onnx.reference knows neither lengths of sequences nor clipping, nor most activations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from onnxgen.graph.reference.own.table import OwnOperators

OWN = OwnOperators()

Activation = Callable[[np.ndarray], np.ndarray]

# functions of x, alpha and beta, with the defaults of the two where they have them
_ACTIVATIONS: dict[str, tuple[Callable[[np.ndarray, Any, Any], Any], tuple[float, ...]]] = {
    "relu": (lambda x, a, b: np.maximum(x, 0), ()),
    "tanh": (lambda x, a, b: np.tanh(x), ()),
    "sigmoid": (lambda x, a, b: 1 / (1 + np.exp(-x)), ()),
    "softsign": (lambda x, a, b: x / (1 + np.abs(x)), ()),
    "softplus": (lambda x, a, b: np.logaddexp(x, 0), ()),
    "leakyrelu": (lambda x, a, b: np.where(x >= 0, x, a * x), (0.01,)),
    "thresholdedrelu": (lambda x, a, b: np.where(x > a, x, 0), (1.0,)),
    "elu": (lambda x, a, b: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))), (1.0,)),
    "affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), (1.0, 1.0)),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), (0.2, 0.5)),
}


class _Recurrent(OpRun):
    """What the three have in common: directions, lengths, layout."""

    default_activations: Sequence[str]
    are_of_gates: Sequence[bool]

    def step(self, gates: _Weights, x: np.ndarray, state: list[np.ndarray]) -> list[np.ndarray]:
        raise NotImplementedError

    def _run(
        self,
        x: np.ndarray,
        w: np.ndarray,
        r: np.ndarray,
        b: np.ndarray | None = None,
        lengths: np.ndarray | None = None,
        initial_h: np.ndarray | None = None,
        initial_c: np.ndarray | None = None,
        peepholes: np.ndarray | None = None,
        *,
        direction: str = "forward",
        layout: int = 0,
        activations: Sequence[str] | None = None,
        activation_alpha: Sequence[float] | None = None,
        activation_beta: Sequence[float] | None = None,
        clip: float | None = None,
        **_about_shape: Any,
    ) -> Any:
        initial = [initial_h, initial_c][: 2 if len(self.default_activations) == 3 else 1]
        if layout:
            x, initial = x.swapaxes(0, 1), [None if s is None else s.swapaxes(0, 1) for s in initial]
        seq, batch, _ = x.shape
        directions, hidden = len(w), r.shape[2]
        y = np.zeros((seq, directions, batch, hidden), x.dtype)
        last = [np.zeros((directions, batch, hidden), x.dtype) for _ in initial]
        functions = _functions(
            activations or list(self.default_activations) * directions, activation_alpha, activation_beta
        )
        bounds = [clip if of_gate else None for of_gate in self.are_of_gates]
        for d in range(directions):
            weights = _Weights(
                w[d].astype(np.float64),
                r[d].astype(np.float64),
                np.zeros(2 * len(w[d])) if b is None else b[d].astype(np.float64),
                None if peepholes is None else peepholes[d].astype(np.float64),
                [_clipped(next(functions), bound) for bound in bounds],
            )
            backwards = direction == "reverse" or d == 1
            for row in range(batch):
                length = seq if lengths is None else int(lengths[row])
                state = [np.zeros(hidden) if s is None else s[d, row].astype(np.float64) for s in initial]
                for t in reversed(range(length)) if backwards else range(length):
                    state = self.step(weights, x[t, row], state)
                    y[t, d, row] = state[0]
                for kept, value in zip(last, state, strict=True):
                    kept[d, row] = value
        if layout:
            return (y.transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in last))
        return (y, *last)


class _Weights:
    """One direction: weights, biases, peepholes, activation functions."""

    def __init__(
        self,
        w: np.ndarray,
        r: np.ndarray,
        b: np.ndarray,
        peepholes: np.ndarray | None,
        functions: list[Activation],
    ) -> None:
        self.w, self.r, self.functions = w, r, functions
        self.wb, self.rb = np.split(b, 2)
        hidden = r.shape[1]
        self.peepholes = np.zeros((3, hidden)) if peepholes is None else peepholes.reshape(3, hidden)

    def of_input(self, x: np.ndarray, gates: int) -> list[np.ndarray]:
        return np.split(self.w @ x + self.wb, gates)

    def of_state(self, h: np.ndarray, gates: int) -> list[np.ndarray]:
        return np.split(self.r @ h + self.rb, gates)


def _functions(
    names: Sequence[str], alpha: Sequence[float] | None, beta: Sequence[float] | None
) -> Iterator[Activation]:
    """The functions in order; those that have parameters take the next ones, or their defaults at the end."""
    alphas, betas = iter(alpha or ()), iter(beta or ())
    for name in names:
        function, defaults = _ACTIVATIONS[name.lower()]
        a = next(alphas, defaults[0]) if defaults else None
        b = next(betas, defaults[1]) if len(defaults) == 2 else None
        yield _with_parameters(function, a, b)


def _with_parameters(function: Callable[[np.ndarray, Any, Any], Any], a: Any, b: Any) -> Activation:
    return lambda x: np.asarray(function(x, a, b))


def _clipped(function: Activation, bound: float | None) -> Activation:
    return function if bound is None else lambda x: function(np.clip(x, -bound, bound))


@OWN.operator("RNN", 1, 7, 14, 22)
class RNN(_Recurrent):
    """``h = f(W x + R h + b)``."""

    default_activations = ("Tanh",)
    are_of_gates = (True,)

    def step(self, gates: _Weights, x: np.ndarray, state: list[np.ndarray]) -> list[np.ndarray]:
        """One time step of one row."""
        return [gates.functions[0](gates.of_input(x, 1)[0] + gates.of_state(state[0], 1)[0])]


@OWN.operator("GRU", 1, 3, 7, 14, 22)
class GRU(_Recurrent):
    """Gates in the order update, reset, hidden; ``linear_before_reset`` applies the reset gate after the product."""

    default_activations = ("Sigmoid", "Tanh")
    are_of_gates = (True, True)

    def step(self, gates: _Weights, x: np.ndarray, state: list[np.ndarray]) -> list[np.ndarray]:
        """One time step of one row."""
        f, g = gates.functions
        (h,) = state
        (xz, xr, xh), (hz, hr, hh) = gates.of_input(x, 3), gates.of_state(h, 3)
        update, reset = f(xz + hz), f(xr + hr)
        if not getattr(self, "linear_before_reset", 0):
            hh = gates.of_state(reset * h, 3)[2]
            candidate = g(xh + hh)
        else:
            candidate = g(xh + reset * hh)
        return [(1 - update) * candidate + update * h]


@OWN.operator("LSTM", 1, 7, 14, 22)
class LSTM(_Recurrent):
    """Gates in the order input, output, forget, cell; peepholes in the order input, output, forget."""

    default_activations = ("Sigmoid", "Tanh", "Tanh")
    are_of_gates = (True, True, False)  # the cell goes into the last one unclipped, as in ONNX Runtime

    def step(self, gates: _Weights, x: np.ndarray, state: list[np.ndarray]) -> list[np.ndarray]:
        """One time step of one row."""
        f, g, to_hidden = gates.functions
        h, c = state
        i, o, forget, cell = (a + b for a, b in zip(gates.of_input(x, 4), gates.of_state(h, 4), strict=True))
        through_i, through_o, through_f = gates.peepholes
        enter = f(i + through_i * c)
        keep = 1 - enter if getattr(self, "input_forget", 0) else f(forget + through_f * c)
        c = keep * c + enter * g(cell)
        return [f(o + through_o * c) * to_hidden(c), c]
