"""What carries a state from token to token: LinearAttention, CausalConvWithState, TensorScatter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.arrays import function_kernel
from onnxgen.graph.cpu.attention import from_heads, to_heads
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_DECAYS, _CORRECTS = ("gated", "gated_delta"), ("delta", "gated_delta")
_RULES = ("linear", *dict.fromkeys(_DECAYS + _CORRECTS))


@TABLE.operator("LinearAttention", 27)
def linear_attention(node: NodeSpec) -> Kernel:
    """A state of (head_dim, v_head_dim) for each key head, written by every token and read by its queries.

    state *= exp(decay)                    gated, gated_delta
    v = beta * (v - state^T k)             delta, gated_delta
    state += k v^T;  y = scale * q^T state
    """
    rule, scale = node.attr("update_rule", "gated_delta"), node.attr("scale", 0.0)
    heads, kv_heads = node.attr("q_num_heads"), node.attr("kv_num_heads")
    if rule not in _RULES or kv_heads <= 0 or heads <= 0 or heads % kv_heads:
        raise KernelError(
            f"{node}: update_rule {rule!r} with {heads} heads of {kv_heads} key heads; "
            f"it must be one of {', '.join(_RULES)}, and the heads a multiple"
        )
    decays, corrects = rule in _DECAYS, rule in _CORRECTS

    def run(
        query: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        past_state: np.ndarray | None = None,
        decay: np.ndarray | None = None,
        beta: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        if (decay is not None) != decays or (beta is not None) != corrects:
            raise KernelError(
                f"{node}: {rule} takes {'a' if decays else 'no'} decay and {'a' if corrects else 'no'} beta"
            )
        q, k, v = (to_heads(widened(x), n) for x, n in ((query, heads), (key, kv_heads), (value, kv_heads)))
        batch, _, seq, head_dim = q.shape
        shape = (batch, kv_heads, head_dim, v.shape[3])
        state = np.zeros(shape, q.dtype) if past_state is None else widened(past_state).astype(q.dtype)
        keep = (
            None if decay is None else np.exp(to_heads(widened(decay), kv_heads))
        )  # (batch, kv, seq, 1 or d)
        rate = None if beta is None else widened(beta).swapaxes(1, 2)[..., None]  # (batch, 1 or kv, seq, 1)
        factor = q.dtype.type(scale or head_dim**-0.5)
        grouped = q.reshape(batch, kv_heads, heads // kv_heads, seq, head_dim) * factor
        y = np.empty((batch, kv_heads, heads // kv_heads, seq, v.shape[3]), q.dtype)
        for token in range(seq):
            if keep is not None:
                state *= keep[:, :, token, :, None]
            key_row, update = k[:, :, token, None], v[:, :, token, None]  # (batch, kv, 1, d)
            if rate is not None:
                update = rate[:, :, token, None] * (update - key_row @ state)
            state += key_row.swapaxes(2, 3) * update
            y[:, :, :, token] = grouped[:, :, :, token] @ state
        output = from_heads(y.reshape(batch, heads, seq, -1)).astype(query.dtype, copy=False)
        return output, state.astype(query.dtype if past_state is None else past_state.dtype, copy=False)

    return function_kernel(_outputs(run, node), node)


@TABLE.operator("CausalConvWithState", 27)
def causal_conv_with_state(node: NodeSpec) -> Kernel:
    """A depthwise convolution that sees only what came before; the last ``k - 1`` positions are the state."""
    activation = node.attr("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise KernelError(f"{node}: activation {activation!r} is none of none, silu, swish")

    def run(
        x: np.ndarray,
        weight: np.ndarray,
        bias: np.ndarray | None = None,
        past_state: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        batch, channels, length = x.shape
        taps = weight.shape[2]
        past = np.zeros((batch, channels, taps - 1), x.dtype) if past_state is None else past_state
        padded = np.concatenate((past, x), 2)  # (batch, channels, taps - 1 + length)
        wide, kernel = widened(padded), widened(weight)
        y = np.zeros(x.shape, wide.dtype)
        for tap in range(taps):
            y += kernel[:, 0, tap, None] * wide[:, :, tap : tap + length]
        if bias is not None:
            y += widened(bias)[:, None]
        if activation != "none":
            y = widened(y.astype(x.dtype, copy=False))
            y = y / (1 + np.exp(-y))
        return y.astype(x.dtype, copy=False), padded[:, :, length:].copy()

    return function_kernel(_outputs(run, node), node)


@TABLE.operator("TensorScatter", 24)
def tensor_scatter(node: NodeSpec) -> Kernel:
    """Write an update of each sample into its cache from an index on; ``circular`` wraps around the end."""
    axis, circular = node.attr("axis", -2), node.attr("mode", "linear") == "circular"

    def into(cache: np.ndarray, update: np.ndarray, *indices_and_y: Any) -> None:
        *given, y = indices_and_y
        indices: np.ndarray | None = given[0] if given else None
        np.copyto(y, cache)
        target, source = np.moveaxis(y, axis, 1), np.moveaxis(update, axis, 1)  # (batch, seq, ...)
        capacity, length = target.shape[1], source.shape[1]
        for sample in range(cache.shape[0]):
            start = 0 if indices is None else int(indices[sample])
            if length > capacity or start < 0 or (not circular and start + length > capacity):
                raise KernelError(
                    f"{node}: {length} positions from {start} on do not fit a cache of {capacity}"
                )
            target[sample, np.arange(start, start + length) % max(capacity, 1)] = source[sample]

    def run(cache: np.ndarray, update: np.ndarray, indices: np.ndarray | None = None) -> np.ndarray:
        y = np.empty(cache.shape, cache.dtype)
        into(cache, update, indices, y)
        return y

    return Kernel(run, into, in_place=((0, 0),))


def _outputs(function: Callable[..., tuple[Any, ...]], node: NodeSpec) -> Callable[..., Any]:
    """The function with as many results as the node has outputs."""

    def first_of(*inputs: Any) -> Any:
        return function(*inputs)[0]

    return function if len(node.outputs) > 1 else first_of
