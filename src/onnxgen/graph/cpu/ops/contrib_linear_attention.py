"""Linear attention of ``com.microsoft``: LinearAttention (padded batches) and GatedDeltaNet (packed tokens)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.activations import sigmoid
from onnxgen.graph.cpu.delta_rule import RULES, unroll
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import checked_bounds, integers
from onnxgen.graph.cpu.linear_attention import linear_attention_kernel
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


def _rule(node: NodeSpec) -> tuple[bool, bool]:
    name = node.attr("update_rule", "gated_delta")
    if name not in RULES:
        raise InvalidGraphError(f"{node}: update_rule {name!r} is none of {', '.join(RULES)}")
    return RULES[name]


def _needed(node: NodeSpec, value: np.ndarray | None, name: str, *, used: bool) -> np.ndarray | None:
    """The input in float32 when the rule uses it."""
    if used and value is None:
        raise KernelError(
            f"{node}: update_rule {node.attr('update_rule', 'gated_delta')!r} needs the input {name}"
        )
    return widened(value) if used and value is not None else None


@TABLE.operator("LinearAttention", 1, domain=MICROSOFT)
def linear_attention(node: NodeSpec) -> Kernel:
    """Inputs ``[batch, seq, heads * dim]``; the state may be kept after each of the last ``state_window`` tokens.

    ``chunk_size`` says how many tokens a device may take at once; the result is the same.
    """
    decays, corrects = _rule(node)
    heads, kv_heads, window = (
        node.attr("q_num_heads"),
        node.attr("kv_num_heads"),
        node.attr("state_window", 0),
    )
    if max(heads, kv_heads) % min(heads, kv_heads):
        raise InvalidGraphError(f"{node}: {heads} query heads and {kv_heads} key heads do not group")

    def gates(
        decay: np.ndarray | None, beta: np.ndarray | None
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        return _needed(node, decay, "decay", used=decays), _needed(node, beta, "beta", used=corrects)

    return linear_attention_kernel(node, heads=heads, kv_heads=kv_heads, gates=gates, window=window)


def _unknown_activation(node: NodeSpec) -> str | None:
    gate, beta = node.attr("gate_activation", "none"), node.attr("beta_activation", "none")
    if gate not in ("none", "softplus", "qwen", "sigmoid", "kda"):
        return f"gate_activation {gate!r} is unknown"
    return None if beta in ("none", "sigmoid") else f"beta_activation {beta!r} is unknown"


@TABLE.operator("GatedDeltaNet", 1, domain=MICROSOFT, why_not=_unknown_activation)
def gated_delta_net(node: NodeSpec) -> Kernel:
    """Packed sequences, each with its state ``[heads, v_head_dim, head_dim]``; transitions can be captured for replay.

    ``chunk_size`` as in `linear_attention`.
    """
    decays, corrects = _rule(node)
    capacity = node.attr("state_update_capacity", 0)

    def run(
        query: np.ndarray,
        key: np.ndarray | None = None,
        value: np.ndarray | None = None,
        offsets: np.ndarray | None = None,
        decay: np.ndarray | None = None,
        beta: np.ndarray | None = None,
        initial_state: np.ndarray | None = None,
        a_log: np.ndarray | None = None,
        dt_bias: np.ndarray | None = None,
        capture_count: np.ndarray | None = None,
        capture_active: np.ndarray | None = None,
    ) -> Any:
        leading = query.shape[:2] if query.ndim == 4 or (key is None and query.ndim == 3) else None
        q, k, v = _heads(node, query, key, value, initial_state)
        if node.attr("qk_l2_norm", 0):
            q, k = (x / np.sqrt(np.square(x).sum(-1, keepdims=True) + np.float32(1e-6)) for x in (q, k))
        heads = v.shape[1]
        gate = _needed(node, decay, "decay", used=decays)
        if gate is not None:
            gate = _gate(node, gate.reshape(len(q), heads, -1), a_log, dt_bias)
        rate = _needed(node, beta, "beta", used=corrects)
        if rate is not None:
            rate = rate.reshape(len(q), heads)
            rate = sigmoid(rate) if node.attr("beta_activation", "none") == "sigmoid" else rate
        bounds = _bounds(node, len(q), offsets, initial_state)
        past = np.zeros((len(bounds) - 1, heads, q.shape[2], v.shape[2]), np.float32)
        if initial_state is not None:
            past = initial_state.swapaxes(2, 3)
        lengths = [b - a for a, b in pairwise(bounds)]
        captures = [0] * len(lengths)
        if capacity and capture_count is not None and (capture_active is None or capture_active.any()):
            wanted = zip(integers(capture_count), lengths, strict=True)
            captures = [max(0, min(count, capacity, length)) for count, length in wanted]
        found = unroll(
            past,
            *(q, k, v),
            bounds,
            scale=node.attr("scale", 0.0) or q.shape[2] ** -0.5,
            decay=gate,
            beta=rate,
            captures=captures,
            capacity=capacity,
        )
        results = [
            found.output.reshape(*(leading or (len(q),)), *found.output.shape[1:]).astype(
                query.dtype, copy=False
            ),
            found.state.swapaxes(2, 3).copy(),
        ]
        if len(node.outputs) > 2:
            results.append(_updates(found.added, gate, k, bounds, captures))
        return tuple(results[: len(node.outputs)]) if len(node.outputs) > 1 else results[0]

    return Kernel(run)


def _heads(
    node: NodeSpec,
    query: np.ndarray,
    key: np.ndarray | None,
    value: np.ndarray | None,
    state: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, K and V as ``[tokens, heads, dim]`` float32."""
    if key is not None and value is not None:
        q, k, v = (widened(x).reshape(-1, *x.shape[-2:]) for x in (query, key, value))
        return q, k, v
    if state is None:
        raise KernelError(f"{node}: packed QKV needs initial_state, which says how many heads there are")
    _, heads, v_dim, dim = state.shape
    packed = widened(query).reshape(-1, query.shape[-1])
    ends = (packed.shape[1] - heads * v_dim) // 2
    q, k, v = np.split(packed, [ends, 2 * ends], axis=1)
    return q.reshape(len(q), -1, dim), k.reshape(len(k), -1, dim), v.reshape(len(v), heads, v_dim)


def _gate(
    node: NodeSpec, gate: np.ndarray, a_log: np.ndarray | None, dt_bias: np.ndarray | None
) -> np.ndarray:
    """The decay in log space from what the projection gives."""
    kind = node.attr("gate_activation", "none")
    if kind == "none":
        return gate
    if a_log is None:
        raise KernelError(f"{node}: gate_activation {kind!r} needs the input a_log")
    rate = np.exp(a_log)[:, None]
    shifted = gate if dt_bias is None else gate + dt_bias.reshape(gate.shape[1], -1)
    if kind in ("sigmoid", "kda"):
        return np.float32(node.attr("gate_lower_bound", -5.0)) * sigmoid(rate * shifted)
    return -rate * np.logaddexp(shifted, 0)


def _updates(
    added: np.ndarray, gate: np.ndarray | None, key: np.ndarray, bounds: list[int], captures: list[int]
) -> np.ndarray:
    """For replay: of each sequence the decays of its first tokens, their keys, and what they added."""
    sequences, capacity, heads, _ = added.shape
    kept = np.zeros((sequences, capacity, heads, 1 if gate is None else gate.shape[2]), np.float32)
    keys = np.zeros((sequences, capacity, *key.shape[1:]), np.float32)
    for index, (start, count) in enumerate(zip(bounds, captures, strict=False)):
        kept[index, :count] = 1 if gate is None else np.exp(gate[start : start + count])
        keys[index, :count] = key[start : start + count]
    return np.concatenate([part.reshape(sequences, -1) for part in (kept, keys, added)], axis=1)


def _bounds(node: NodeSpec, tokens: int, offsets: np.ndarray | None, state: np.ndarray | None) -> list[int]:
    """Where sequences begin, and where the last one ends."""
    if offsets is not None:
        return checked_bounds(node, offsets, tokens)
    if state is not None and len(state) and tokens % len(state) == 0:
        each = tokens // len(state)
        return [index * each for index in range(len(state) + 1)]
    raise KernelError(f"{node}: needs cu_seqlens, or a state for as many sequences as divide {tokens} tokens")
