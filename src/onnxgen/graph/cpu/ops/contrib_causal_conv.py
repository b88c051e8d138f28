"""Causal depthwise convolutions with a carried state, of ``com.microsoft``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.activations import silu
from onnxgen.graph.cpu.causal_convolution import convolve_causally
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
    last, activate = bool(node.attr("channels_last", 0)), _ACTIVATIONS[node.attr("activation", "none")]

    def run(
        x: np.ndarray,
        weight: np.ndarray,
        bias: np.ndarray | None = None,
        past_state: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        # Channels last: [batch, seq, ...channels] as [batch, channels, seq], and back at the end.
        shape, channels = x.shape, weight.shape[0]
        first = x.reshape(*x.shape[:2], channels).swapaxes(1, 2) if last else x
        length = (weight.shape[-1] - 1) * dilation
        past = np.zeros((*first.shape[:-1], length), x.dtype)
        if past_state is not None:
            old = past_state[-1] if window else past_state
            past = old.reshape(len(x), length, channels).swapaxes(1, 2) if last else old
        if past.shape != (*first.shape[:-1], length):
            raise KernelError(
                f"{node}: past_state {past.shape} does not fit input {shape} and kernel {weight.shape}"
            )
        joined = np.concatenate([past, first], axis=-1)
        y = activate(convolve_causally(joined, weight, bias, dilation=dilation))
        seq = first.shape[-1]

        def state_after(count: int) -> np.ndarray:
            kept = joined[..., count : count + length]
            return kept.swapaxes(1, 2).reshape(len(x), length, *shape[2:]) if last else kept

        if window:
            present = np.zeros((window, *state_after(seq).shape), x.dtype)
            for count in range(max(1, seq - window + 1), seq + 1):
                present[count - seq - 1] = state_after(count)
        else:
            present = state_after(seq).copy()
        y = y.swapaxes(1, 2).reshape(shape) if last else y
        return y.astype(x.dtype, copy=False), present

    return Kernel(run)


@TABLE.operator("VarlenCausalConvWithState", 1, domain=MICROSOFT, why_not=_beyond)
def varlen_causal_conv_with_state(node: NodeSpec) -> Kernel:
    """The same over packed sequences ``[tokens, channels]``; inputs can be captured for replay."""
    dilation, capacity = node.attr("dilation", 1), node.attr("state_update_capacity", 0)
    activate = _ACTIVATIONS[node.attr("activation", "none")]

    def run(
        x: np.ndarray,
        weight: np.ndarray,
        offsets: np.ndarray,
        bias: np.ndarray | None,
        initial_state: np.ndarray,
        capture_count: np.ndarray | None = None,
    ) -> Any:
        bounds, length = checked_bounds(node, offsets, len(x)), initial_state.shape[2]
        if length != (weight.shape[-1] - 1) * dilation or len(initial_state) != len(bounds) - 1:
            raise KernelError(
                f"{node}: state {initial_state.shape} does not fit {len(bounds) - 1} sequences and kernel {weight.shape}"
            )
        y, final = np.empty(x.shape, x.dtype), np.empty(initial_state.shape, x.dtype)
        update = np.zeros((len(final), capacity, x.shape[1]), x.dtype)
        for index, (start, end) in enumerate(pairwise(bounds)):
            joined = np.concatenate([initial_state[index], x[start:end].T], axis=1)
            y[start:end] = activate(convolve_causally(joined[None], weight, bias, dilation=dilation))[0].T
            final[index] = joined[:, joined.shape[1] - length :]
            if capacity and capture_count is not None:
                count = min(max(0, int(capture_count[index])), capacity, end - start)
                update[index, :count] = x[start : start + count]
        found = (y, final, update)
        return found[: len(node.outputs)]

    return Kernel(run)
