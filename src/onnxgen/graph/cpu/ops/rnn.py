"""Recurrent networks: ``RNN``, ``GRU``, ``LSTM``, and ``DynamicQuantizeLSTM`` of ``com.microsoft``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxgen.graph.cpu.activation_functions import Activation
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.integer_products import integer_matmul, peak, shifted
from onnxgen.graph.cpu.quantization import dynamic_parameters, quantize
from onnxgen.graph.cpu.recurrent import (
    Project,
    RecurrentSpec,
    State,
    Step,
    batch_second,
    projections,
    require_fit,
    run_directions,
    wanted_outputs,
)
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

if TYPE_CHECKING:
    from onnxgen.graph.cpu.compiled.recurrent import Cell

TABLE = KernelTable()

_USUAL: dict[Cell, tuple[str, ...]] = {
    "LSTM": ("sigmoid", "tanh", "tanh"),
    "GRU": ("sigmoid", "tanh"),
    "RNN": ("tanh",),
}


class _Layer:
    """A node as one compiled loop: float32, the usual activations, no bounds, no coupled gates.

    Weights that the model holds are packed at the first call.
    """

    def __init__(self, node: NodeSpec, spec: RecurrentSpec, cell: Cell) -> None:
        from onnxgen.graph.cpu import recurrent_layer

        self._layers, self._node, self._spec, self._cell = recurrent_layer, node, spec, cell
        self._linear = bool(node.attr("linear_before_reset", 0))
        self._held = all(i in node.constants for i in (1, 2)) and (
            not node.has_input(3) or 3 in node.constants
        )
        self._packed: Any = None

    @staticmethod
    def of(node: NodeSpec, spec: RecurrentSpec, cell: Cell) -> _Layer | None:
        """The layer where the node is one."""
        names = tuple(name.lower() for name in node.attr("activations") or ())
        usual = names in ((), _USUAL[cell] * len(spec.reverse))
        if not usual or spec.clip is not None or node.attr("input_forget", 0):
            return None
        return _Layer(node, spec, cell)

    def __call__(
        self,
        x: np.ndarray,
        w: np.ndarray,
        r: np.ndarray,
        b: np.ndarray | None,
        lengths: np.ndarray | None,
        initial: tuple[np.ndarray | None, ...],
    ) -> np.ndarray | tuple[np.ndarray | None, ...]:
        """The outputs for inputs of float32 or narrower."""
        packed = self._packed
        if packed is None:
            packed = self._layers.PackedRecurrence.of(
                self._cell, widened(w), widened(r), widened(b), linear=self._linear
            )
            self._packed = packed if self._held else None
        results = self._layers.run_layer(
            packed,
            batch_second(self._spec, widened(x)),
            reverse=self._spec.reverse,
            lengths=lengths,
            states=[None if state is None else batch_second(self._spec, widened(state)) for state in initial],
            linear=self._linear,
        )
        return wanted_outputs(self._node, self._spec, results, x.dtype)


@TABLE.operator("RNN", 1, 7, 14, 22)
def rnn(node: NodeSpec) -> Kernel:
    """``h = f(x W + h R + b)``."""
    spec = RecurrentSpec.of(node, ("Tanh",))
    layer = _Layer.of(node, spec, "RNN")

    def step(r: np.ndarray, functions: tuple[Activation, ...]) -> Step:
        (f,) = functions

        def advance(projected: np.ndarray, state: State) -> State:
            return (f(spec.clipped(projected + state[0] @ r.T)),)

        return advance

    def run(
        x: np.ndarray,
        w: np.ndarray,
        r: np.ndarray,
        b: np.ndarray | None = None,
        lengths: np.ndarray | None = None,
        initial_h: np.ndarray | None = None,
    ) -> np.ndarray | tuple[np.ndarray | None, ...]:
        require_fit(node, spec, x, (w, r), b, lengths, (initial_h,), gates=1)
        if layer is not None and x.dtype != np.float64:
            return layer(x, w, r, b, lengths, (initial_h,))
        wide = widened(r)
        steps = [step(wide[d], functions) for d, functions in enumerate(spec.activations)]
        biases = None if b is None else widened(b).reshape(len(r), 2, -1).sum(1)
        return run_directions(node, spec, x, projections(w, biases), steps, lengths, (initial_h,), r.shape[2])

    return Kernel(run)


@TABLE.operator("GRU", 1, 3, 7, 14, 22)
def gru(node: NodeSpec) -> Kernel:
    """Gates update, reset, hidden; ``linear_before_reset`` multiplies by the reset gate after the recurrent weights."""
    spec, linear = RecurrentSpec.of(node, ("Sigmoid", "Tanh")), bool(node.attr("linear_before_reset", 0))
    layer = _Layer.of(node, spec, "GRU")

    def step(r: np.ndarray, b: np.ndarray, functions: tuple[Activation, ...]) -> Step:
        f, g = functions
        hidden = r.shape[1]
        gates, last, bias = r[: 2 * hidden], r[2 * hidden :], b[2 * hidden :]

        def advance(projected: np.ndarray, state: State) -> State:
            (h,) = state
            update, reset = np.split(f(spec.clipped(projected[:, : 2 * hidden] + h @ gates.T)), 2, axis=1)
            recurrent = reset * (h @ last.T + bias) if linear else (reset * h) @ last.T + bias
            new = g(spec.clipped(projected[:, 2 * hidden :] + recurrent))
            return ((1 - update) * new + update * h,)

        return advance

    def run(
        x: np.ndarray,
        w: np.ndarray,
        r: np.ndarray,
        b: np.ndarray | None = None,
        lengths: np.ndarray | None = None,
        initial_h: np.ndarray | None = None,
    ) -> np.ndarray | tuple[np.ndarray | None, ...]:
        require_fit(node, spec, x, (w, r), b, lengths, (initial_h,), gates=3)
        if layer is not None and x.dtype != np.float64:
            return layer(x, w, r, b, lengths, (initial_h,))
        wide, hidden = widened(r), r.shape[2]
        both = (
            np.zeros((len(r), 2, 3 * hidden), wide.dtype) if b is None else widened(b).reshape(len(r), 2, -1)
        )
        # The recurrent bias of update and reset joins the input's; that of the hidden gate may be scaled by reset.
        inputs = both[:, 0] + np.concatenate(
            [both[:, 1, : 2 * hidden], np.zeros_like(both[:, 1, :hidden])], 1
        )
        steps = [step(wide[d], both[d, 1], functions) for d, functions in enumerate(spec.activations)]
        return run_directions(node, spec, x, projections(w, inputs), steps, lengths, (initial_h,), hidden)

    return Kernel(run)


@TABLE.operator("LSTM", 1, 7, 14, 22)
def lstm(node: NodeSpec) -> Kernel:
    """Gates input, output, forget, cell; peepholes input, output, forget."""

    def weights(
        w: np.ndarray, r: np.ndarray, biases: np.ndarray | None
    ) -> tuple[list[Project], list[Project], int]:
        return projections(w, biases), projections(r, None), r.shape[2]

    run, spec = lstm_runner(node), RecurrentSpec.of(node, ("Sigmoid", "Tanh", "Tanh"))
    layer = _Layer.of(node, spec, "LSTM")

    def call(
        x: np.ndarray,
        w: np.ndarray,
        r: np.ndarray,
        b: np.ndarray | None = None,
        lengths: np.ndarray | None = None,
        initial_h: np.ndarray | None = None,
        initial_c: np.ndarray | None = None,
        peepholes: np.ndarray | None = None,
    ) -> np.ndarray | tuple[np.ndarray | None, ...]:
        require_fit(node, spec, x, (w, r), b, lengths, (initial_h, initial_c), gates=4)
        if layer is not None and peepholes is None and x.dtype != np.float64:
            return layer(x, w, r, b, lengths, (initial_h, initial_c))
        biases = None if b is None else widened(b).reshape(len(r), 2, -1).sum(1)
        return run(x, weights(w, r, biases), lengths, (initial_h, initial_c), peepholes)

    return Kernel(call)


def lstm_runner(node: NodeSpec) -> Callable[..., np.ndarray | tuple[np.ndarray | None, ...]]:
    """``run(x, (input_projections, recurrent_projections, hidden), lengths, initial_states, peepholes)``."""
    spec = RecurrentSpec.of(node, ("Sigmoid", "Tanh", "Tanh"))
    coupled = bool(node.attr("input_forget", 0))

    def step(recur: Project, p: np.ndarray | None, functions: tuple[Activation, ...]) -> Step:
        f, g, h = functions

        def advance(projected: np.ndarray, state: State) -> State:
            hidden, cell = state
            into, out, forget, new = np.split(projected + recur(hidden), 4, axis=1)
            if p is not None:
                into, forget = into + p[0] * cell, forget + p[2] * cell
            into = f(spec.clipped(into))
            forget = 1 - into if coupled else f(spec.clipped(forget))
            cell = forget * cell + into * g(spec.clipped(new))
            if p is not None:
                out = out + p[1] * cell
            return f(spec.clipped(out)) * h(cell), cell

        return advance

    def run(
        x: np.ndarray,
        weights: tuple[list[Project], list[Project], int],
        lengths: np.ndarray | None,
        initial: tuple[np.ndarray | None, np.ndarray | None],
        peepholes: np.ndarray | None,
    ) -> np.ndarray | tuple[np.ndarray | None, ...]:
        inputs, recurrent, hidden = weights
        p = None if peepholes is None else widened(peepholes).reshape(len(inputs), 3, hidden)
        steps = [
            step(recurrent[d], None if p is None else p[d], functions)
            for d, functions in enumerate(spec.activations)
        ]
        return run_directions(node, spec, x, inputs, steps, lengths, initial, hidden)

    return run


@TABLE.operator("DynamicQuantizeLSTM", 1, domain=MICROSOFT)
def dynamic_quantize_lstm(node: NodeSpec) -> Kernel:
    """``LSTM`` whose weights ``[directions, features, 4 * hidden]`` are quantized, and whose inputs are at each product."""
    run_lstm = lstm_runner(node)

    def run(
        x: np.ndarray,
        w: np.ndarray,
        r: np.ndarray,
        b: np.ndarray | None,
        lengths: np.ndarray | None,
        initial_h: np.ndarray | None,
        initial_c: np.ndarray | None,
        peepholes: np.ndarray | None,
        w_scale: np.ndarray,
        w_zero_point: np.ndarray,
        r_scale: np.ndarray,
        r_zero_point: np.ndarray,
    ) -> Any:
        biases = None if b is None else b.reshape(len(r), 2, -1).sum(1)
        weights = (
            [
                _dynamic_projection(w[d], w_scale[d], w_zero_point[d], None if biases is None else biases[d])
                for d in range(len(w))
            ],
            [_dynamic_projection(r[d], r_scale[d], r_zero_point[d], None) for d in range(len(r))],
            r.shape[1],
        )
        return run_lstm(x, weights, lengths, (initial_h, initial_c), peepholes)

    return Kernel(run)


def _dynamic_projection(
    w: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, bias: np.ndarray | None
) -> Project:
    zeros = np.asarray(zero_point)
    right, right_peak = shifted(w, zeros), peak(w.dtype, zeros)

    def project(x: np.ndarray) -> np.ndarray:
        x_scale, x_zero = dynamic_parameters(x)
        left = shifted(quantize(x, x_scale, x_zero, np.dtype(np.uint8)), x_zero)
        y = integer_matmul(left, right, a_peak=255, b_peak=right_peak).astype(np.float32) * (x_scale * scale)
        return y if bias is None else y + bias

    return project
