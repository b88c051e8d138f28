"""What carries a state from token to token: LinearAttention, CausalConvWithState, TensorScatter."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.activations import silu
from onnxgen.graph.cpu.causal_convolution import convolve_rows
from onnxgen.graph.cpu.delta_rule import RULES
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.linear_attention import linear_attention_kernel
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("LinearAttention", 27)
def linear_attention(node: NodeSpec) -> Kernel:
    """A state of (head_dim, v_head_dim) for each key head, written by every token and read by its queries.

    See `delta_rule`. ``chunk_size`` says how many tokens an implementation may take at once; the result is the same.
    """
    rule = node.attr("update_rule", "gated_delta")
    heads, kv_heads = node.attr("q_num_heads"), node.attr("kv_num_heads")
    if rule not in RULES or kv_heads <= 0 or heads <= 0 or heads % kv_heads:
        raise InvalidGraphError(
            f"{node}: update_rule {rule!r} with {heads} heads of {kv_heads} key heads; "
            f"it must be one of {', '.join(RULES)}, and the heads a multiple"
        )
    decays, corrects = RULES[rule]

    def gates(
        decay: np.ndarray | None, beta: np.ndarray | None
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        if (decay is not None) != decays or (beta is not None) != corrects:
            raise KernelError(
                f"{node}: {rule} takes {'a' if decays else 'no'} decay and {'a' if corrects else 'no'} beta"
            )
        return widened(decay), widened(beta)

    return linear_attention_kernel(node, heads=heads, kv_heads=kv_heads, gates=gates)


@TABLE.operator("CausalConvWithState", 27)
def causal_conv_with_state(node: NodeSpec) -> Kernel:
    """A depthwise convolution that sees only what came before; the last ``k - 1`` positions are the state."""
    activation = node.attr("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise InvalidGraphError(f"{node}: activation {activation!r} is none of none, silu, swish")

    def into(x: np.ndarray, weight: np.ndarray, *rest: Any) -> None:
        *given, y, present = rest
        bias, past = [*given, None, None][:2]
        # In halves each step is rounded; in float32 there is nothing to round.
        gated, in_steps = activation != "none", x.dtype != np.float32
        convolve_rows(x, past, weight, bias, y, present, gated=gated and not in_steps)
        if gated and in_steps:
            y[...] = silu(widened(y))

    def run(x: np.ndarray, weight: np.ndarray, bias: Any = None, past: Any = None) -> Any:
        y = np.empty(x.shape, x.dtype)
        present = np.empty((*x.shape[:2], weight.shape[-1] - 1), x.dtype)
        into(x, weight, bias, past, y, present)
        return (y, present) if len(node.outputs) > 1 else y

    return Kernel(run, into if len(node.outputs) > 1 else None)


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
