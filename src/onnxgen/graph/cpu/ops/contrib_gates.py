"""Gated norms, additions and activations of ``com.microsoft``, as hybrid decoders have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.activations import sigmoid, silu, swiglu
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.normalization import rms_normalized
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("GatedRMSNorm", 1, domain=MICROSOFT)
def gated_rms_norm(node: NodeSpec) -> Kernel:
    """Groups of as many elements as the scale has, normalized, scaled and gated."""
    epsilon, name = node.attr("epsilon", 1e-5), node.attr("activation", "silu")
    if name not in ("silu", "swish", "sigmoid"):
        raise InvalidGraphError(f"{node}: activation {name!r} is none of silu, swish, sigmoid")
    activation = sigmoid if name == "sigmoid" else silu

    def run(x: np.ndarray, scale: np.ndarray, gate: np.ndarray) -> np.ndarray:
        if x.shape[-1] % scale.size or gate.shape != x.shape:
            raise KernelError(
                f"{node}: scale {scale.shape} or gate {gate.shape} does not fit input {x.shape}"
            )
        groups = widened(x).reshape(*x.shape[:-1], -1, scale.size)
        y = (rms_normalized(groups, epsilon) * widened(scale)).reshape(x.shape)
        return (y * activation(widened(gate))).astype(x.dtype, copy=False)

    return Kernel(run)


@TABLE.operator("BranchwiseRMSNorm", 1, domain=MICROSOFT)
def branchwise_rms_norm(node: NodeSpec) -> Kernel:
    """Each branch normalized by itself."""
    branches, epsilon = node.attr("num_branches", 0), node.attr("epsilon", 1e-5)

    def run(x: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
        grouped = widened(x)
        if branches:
            if x.shape[-1] % branches:
                raise KernelError(f"{node}: {x.shape[-1]} elements are not {branches} branches of one size")
            grouped = grouped.reshape(*x.shape[:-1], branches, -1)
        y = rms_normalized(grouped, epsilon)
        if scale is not None:
            shape = grouped.shape[-1:] if scale.size == grouped.shape[-1] else grouped.shape[-2:]
            y = y * widened(scale).reshape(shape)
        return y.reshape(x.shape).astype(x.dtype, copy=False)

    return Kernel(run)


@TABLE.operator("LinearAttentionGate", 1, domain=MICROSOFT)
def linear_attention_gate(node: NodeSpec) -> Kernel:
    """The decay ``scale * softplus(a + bias)``, and the update rate ``sigmoid(b)``."""

    def run(a: np.ndarray, dt_bias: np.ndarray, decay_scale: np.ndarray, b: np.ndarray | None = None) -> Any:
        decay = (decay_scale * np.logaddexp(widened(a) + dt_bias, 0)).astype(a.dtype, copy=False)
        if len(node.outputs) == 1:
            return decay
        if b is None:
            raise KernelError(f"{node}: the output beta needs the input b")
        return decay, sigmoid(widened(b)).astype(b.dtype, copy=False)

    return Kernel(run)


def _projects(node: NodeSpec) -> str | None:
    return "the projected gate is for bfloat16 on other devices" if node.has_input(3) else None


@TABLE.operator("GatedAdd", 1, domain=MICROSOFT, why_not=_projects)
def gated_add(node: NodeSpec) -> Kernel:
    """``x + y * gate``, the product rounded to the element type first."""

    def run(x: np.ndarray, y: np.ndarray, gate: np.ndarray) -> np.ndarray:
        return np.asarray(x + y * gate)

    return Kernel(run)


@TABLE.operator("ScaledSiLU", 1, domain=MICROSOFT)
def scaled_silu(node: NodeSpec) -> Kernel:
    """``z * sigmoid(z)`` of the scaled input, each of the three steps rounded to the element type."""
    alpha = node.attr("alpha", 1.0)

    def run(x: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
        factor = np.float32(alpha) if scale is None else widened(scale).reshape(())
        z = (widened(x) * factor).astype(x.dtype, copy=False)
        s = sigmoid(widened(z)).astype(x.dtype, copy=False)
        return (widened(z) * widened(s)).astype(x.dtype, copy=False)

    return Kernel(run)


@TABLE.operator("SwiGLU", 1, domain=MICROSOFT)
def clamped_swiglu(node: NodeSpec) -> Kernel:
    """``silu(gate) * (up + beta)``; without ``up`` the first input is both, the gate first. A limit of 0 is none."""
    alpha, beta = node.attr("activation_alpha", 1.0), node.attr("activation_beta", 0.0)
    limit = node.attr("limit", 0.0)
    rounds = bool(node.attr("round_activation", 0))

    def run(gate: np.ndarray, up: np.ndarray | None = None) -> np.ndarray:
        g, u = np.split(widened(gate), 2, axis=-1) if up is None else (widened(gate), widened(up))
        bound = limit if limit > 0 else None
        if not rounds:
            return swiglu(g, u, alpha=alpha, beta=beta, limit=bound).astype(gate.dtype, copy=False)
        g, u = (g, u) if bound is None else (np.minimum(g, bound), np.clip(u, -bound, bound))
        rounded = widened(silu(g, alpha).astype(gate.dtype, copy=False))
        return (rounded * (u + np.float32(beta))).astype(gate.dtype, copy=False)

    return Kernel(run)


@TABLE.operator("MoEGroupRouter", 1, domain=MICROSOFT)
def moe_group_router(node: NodeSpec) -> Kernel:
    """Scores of experts, of which only the best of the best groups count; or all scores for a later choice."""
    k, groups, best_groups = node.attr("top_k"), node.attr("n_group", 1), node.attr("topk_group", 1)
    sentinel, members = node.attr("router_sentinel", -10000.0), node.attr("group_topk", 2)

    def run(logits: np.ndarray, bias: np.ndarray, projection: np.ndarray | None = None) -> Any:
        flat = widened(logits).reshape(-1, logits.shape[-1])
        flat = flat if projection is None else flat @ widened(projection).T
        scores = 1 / (1 + np.exp(-flat))
        biased = scores + bias
        if not node.wants_output(0):
            return (None, biased, scores)[: len(node.outputs)]
        experts = flat.shape[1]
        if experts % groups or not 1 <= k <= experts:
            raise KernelError(
                f"{node}: {experts} experts do not make {groups} groups, or {k} of them are too many"
            )
        grouped = biased.reshape(len(flat), groups, -1)
        strength = np.sort(grouped, axis=-1)[..., -members:].sum(axis=-1)
        kept = np.zeros(strength.shape, bool)
        np.put_along_axis(kept, np.argsort(-strength, axis=1, kind="stable")[:, :best_groups], True, axis=1)
        open_to = np.where(kept[..., None], grouped, -np.inf).reshape(biased.shape)
        chosen = np.argsort(-open_to, axis=1, kind="stable")[:, :k]
        y = np.full(flat.shape, sentinel, np.float32)
        best = np.take_along_axis(scores, chosen, axis=1)
        np.put_along_axis(y, chosen, np.log(np.maximum(best, 1e-20)), axis=1)
        routed = y.astype(logits.dtype, copy=False)
        return routed if len(node.outputs) == 1 else (routed, biased, scores)[: len(node.outputs)]

    return Kernel(run)


@TABLE.operator("EngramGate", 1, domain=MICROSOFT)
def engram_gate(node: NodeSpec) -> Kernel:
    """A value that each hyper-connection takes as far as its key and query agree."""
    epsilon = node.attr("epsilon", 1e-5)

    def run(
        key: np.ndarray,
        query: np.ndarray,
        value: np.ndarray,
        key_scale: np.ndarray,
        query_scale: np.ndarray,
        conv_scale: np.ndarray | None = None,
    ) -> Any:
        k, q = (
            rms_normalized(widened(x), epsilon) * widened(s)
            for x, s in ((key, key_scale), (query, query_scale))
        )
        dot = (k * q).sum(axis=-1, keepdims=True) / np.float32(key.shape[-1] ** 0.5)
        gate = sigmoid(np.sign(dot) * np.sqrt(np.maximum(np.abs(dot), np.float32(1e-6))))
        gated = gate * widened(value)[:, :, None]
        if len(node.outputs) == 1:
            return gated.astype(value.dtype, copy=False)
        if conv_scale is None:
            raise KernelError(f"{node}: the output gated_value_normed needs the input conv_norm_scale")
        normed = rms_normalized(gated, epsilon) * widened(conv_scale)
        return gated.astype(value.dtype, copy=False), normed.astype(value.dtype, copy=False)

    return Kernel(run)
