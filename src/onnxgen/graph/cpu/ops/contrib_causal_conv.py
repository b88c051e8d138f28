"""Causal depthwise convolutions with a carried state, of ``com.microsoft``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.activations import silu
from onnxgen.graph.cpu.causal_convolution import convolve_causally, convolve_rows, convolve_tokens
from onnxgen.graph.cpu.indexing import checked_bounds
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda x: x,
    "silu": silu,
    "swish": silu,
}
_DEVICE_ONLY = {
    "state_update_capacity": 0,
    "state_channels_last": -1,
    "state_length": 0,
    "input_channel_offset": 0,
    "input_channels": 0,
}


def _beyond(node: NodeSpec) -> str | None:
    if node.attr("activation", "none") not in _ACTIVATIONS:
        return f"activation {node.attr('activation')!r} is none of {', '.join(_ACTIVATIONS)}"
    if node.op_type == "CausalConvWithState":
        for name, default in _DEVICE_ONLY.items():
            if node.attr(name, default) != default:
                return f"{name} {node.attr(name)} is for other devices"
    elif node.has_input(6):
        return "weights that change with each token are not done here"
    return None


@TABLE.operator("CausalConvWithState", 1, domain=MICROSOFT, why_not=_beyond)
def causal_conv_with_state(node: NodeSpec) -> Kernel:
    """Each channel with a kernel of its own that sees no later position of the last axis.

    ``ndim`` only repeats how many spatial axes the input has.
    """
    dilation, window = node.attr("dilation", 1), node.attr("state_window", 0)
    last, gated = bool(node.attr("channels_last", 0)), node.attr("activation", "none") != "none"

    def run(
        x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None, past: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        kept = (weight.shape[-1] - 1) * dilation
        before = past[-1] if window and past is not None else past
        y = np.empty(x.shape, x.dtype)
        if last:
            present = np.empty((len(x), kept, *x.shape[2:]), x.dtype)
            rows = None if before is None else before.reshape(len(x), -1, weight.shape[0])
            tokens = x.reshape(-1, weight.shape[0])
            convolve_tokens(
                tokens,
                rows,
                weight,
                bias,
                [index * x.shape[1] for index in range(len(x) + 1)],
                y.reshape(tokens.shape),
                present.reshape(len(x), kept, weight.shape[0]),
                dilation=dilation,
                gated=gated,
            )
        else:
            present = np.empty((*x.shape[:-1], kept), x.dtype)
            if weight.ndim == 3:
                convolve_rows(x, before, weight, bias, y, present, dilation=dilation, gated=gated)
            else:
                _convolve_axes(node, x, before, weight, bias, y, present, dilation=dilation)
        return y, _states(x, before, present, window, axis=1 if last else x.ndim - 1) if window else present

    return Kernel(run)


def _convolve_axes(
    node: NodeSpec,
    x: np.ndarray,
    past: np.ndarray | None,
    weight: np.ndarray,
    bias: np.ndarray | None,
    y: np.ndarray,
    present: np.ndarray,
    *,
    dilation: int,
) -> None:
    """Several spatial axes, of which only the last one is causal."""
    past = np.zeros(present.shape, x.dtype) if past is None else past
    if past.shape != present.shape:
        raise KernelError(
            f"{node}: past_state {past.shape} does not fit input {x.shape} and kernel {weight.shape}"
        )
    joined = np.concatenate([past, x], axis=-1)
    activate = _ACTIVATIONS[node.attr("activation", "none")]
    y[...] = activate(convolve_causally(joined, weight, bias, dilation=dilation))
    present[...] = joined[..., joined.shape[-1] - present.shape[-1] :]


def _states(
    x: np.ndarray, past: np.ndarray | None, present: np.ndarray, window: int, *, axis: int
) -> np.ndarray:
    """The state after each of the last positions, ``[window, ...]``; zeros before the first."""
    joined = np.concatenate([np.zeros_like(present) if past is None else past, x], axis=axis)
    states, seq, kept = np.zeros((window, *present.shape), x.dtype), x.shape[axis], present.shape[axis]
    for count in range(max(1, seq - window + 1), seq + 1):
        states[count - seq - 1] = joined.take(range(count, count + kept), axis)
    return states


@TABLE.operator("VarlenCausalConvWithState", 1, domain=MICROSOFT, why_not=_beyond)
def varlen_causal_conv_with_state(node: NodeSpec) -> Kernel:
    """The same over packed sequences ``[tokens, channels]``; inputs can be captured for replay."""
    dilation, capacity = node.attr("dilation", 1), node.attr("state_update_capacity", 0)
    gated = node.attr("activation", "none") != "none"

    def run(
        x: np.ndarray,
        weight: np.ndarray,
        offsets: np.ndarray,
        bias: np.ndarray | None,
        initial_state: np.ndarray,
        capture_count: np.ndarray | None = None,
    ) -> Any:
        bounds, (sequences, channels, kept) = checked_bounds(node, offsets, len(x)), initial_state.shape
        y, final = np.empty(x.shape, x.dtype), np.empty((sequences, kept, channels), x.dtype)
        past = initial_state.swapaxes(1, 2)
        convolve_tokens(x, past, weight, bias, bounds, y, final, dilation=dilation, gated=gated)
        final = final.swapaxes(1, 2).copy()
        update = np.zeros((sequences, capacity, channels), x.dtype)
        if capacity and capture_count is not None:
            for index, (start, end) in enumerate(pairwise(bounds)):
                count = min(max(0, int(capture_count[index])), capacity, end - start)
                update[index, :count] = x[start : start + count]
        found = (y, final, update)
        return found[: len(node.outputs)]

    return Kernel(run)
