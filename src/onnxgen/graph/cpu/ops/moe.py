"""Mixtures of experts: MoE with float weights, QMoE with integer ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.foundations.packed_bits import unpack
from onnxgen.graph.cpu.activations import gelu_tanh, sigmoid, silu, swiglu
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.scores import softmax
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_PLAIN: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu2": lambda x: np.square(np.maximum(x, 0)),
    "gelu": gelu_tanh,
    "silu": silu,
    "identity": lambda x: x,
}
_GATED = ("swiglu", "geglu")


@dataclass(frozen=True, slots=True)
class _Layer:
    """One projection of every expert: ``weights(expert)`` is ``[outputs, inputs]`` float32."""

    weights: Callable[[int], np.ndarray]
    bias: np.ndarray | None

    def __call__(self, x: np.ndarray, expert: int) -> np.ndarray:
        y = x @ self.weights(expert).T
        return y if self.bias is None else y + widened(self.bias[expert])


def _unknown(node: NodeSpec) -> str | None:
    activation = node.attr("activation_type", "relu")
    if activation not in (*_PLAIN, *_GATED):
        return f"activation_type {activation!r} is none of {', '.join((*_PLAIN, *_GATED))}"
    if node.attr("use_sparse_mixer", 0):
        return "the sparse mixer is not done here"
    if node.attr("quant_type", "int") != "int":
        return f"quant_type {node.attr('quant_type')!r} is not done here, only 'int'"
    if node.op_type == "QMoE" and node.attr("weights_prepacked", -1) == 1:
        return "weights that are packed for another provider cannot be read"
    return None


@TABLE.operator("MoE", 1, domain=MICROSOFT, why_not=_unknown)
def moe(node: NodeSpec) -> Kernel:
    """Each token through the ``k`` experts that its router prefers, mixed by the router's softmax."""

    def run(x: np.ndarray, router: np.ndarray, *given: np.ndarray | None) -> np.ndarray:
        given = (*given, *(None,) * (6 - len(given)))
        layers = [_dense(weights, bias) for weights, bias in zip(given[::2], given[1::2], strict=True)]
        return _mixed(node, x, router, None, layers)

    return Kernel(run)


@TABLE.operator("QMoE", 1, domain=MICROSOFT, why_not=_unknown)
def quantized_moe(node: NodeSpec) -> Kernel:
    """The same with weights of 2, 3, 4 or 8 bits; activations stay in float32, which every ``accuracy_level`` allows."""
    bits = node.attr("expert_weight_bits", 4)

    def run(x: np.ndarray, router: np.ndarray, *given: np.ndarray | None) -> np.ndarray:
        given = (*given, *(None,) * (13 - len(given)))
        layers = [
            _packed(
                node, given[3 * i : 3 * i + 3], given[9 + i], node.attr(f"fc{i + 1}_expert_weight_bits", bits)
            )
            for i in range(3)
        ]
        return _mixed(node, x, router, given[12], layers)

    return Kernel(run)


def _dense(weights: np.ndarray | None, bias: np.ndarray | None) -> _Layer | None:
    if weights is None:
        return None

    def of_expert(expert: int) -> np.ndarray:
        return widened(weights[expert])

    return _Layer(of_expert, bias)


def _packed(
    node: NodeSpec, layer: tuple[np.ndarray | None, ...], zero_points: np.ndarray | None, bits: int
) -> _Layer | None:
    packed, scales, bias = layer
    if packed is None:
        return None
    if scales is None:
        raise KernelError(f"{node}: quantized weights {packed.shape} have no scales")
    columns, block = packed.shape[2] * 8 // bits, node.attr("block_size", 0)

    def of_expert(expert: int) -> np.ndarray:
        codes = unpack(packed[expert], bits, columns).astype(np.float32)
        scale = widened(scales[expert]).reshape(len(codes), -1)  # [outputs, blocks]
        blocks = scale.shape[1]
        if zero_points is None:
            zero = np.float32(1 << (bits - 1))
        elif block:
            zero = unpack(zero_points[expert], bits, blocks).astype(np.float32)[..., None]
        else:
            zero = unpack(zero_points[expert], bits, len(codes)).astype(np.float32)[:, None, None]
        wide = (codes.reshape(len(codes), blocks, -1) - zero) * scale[..., None]
        return wide.reshape(codes.shape)

    return _Layer(of_expert, bias)


def _mixed(
    node: NodeSpec, x: np.ndarray, router: np.ndarray, mixing: np.ndarray | None, layers: list[_Layer | None]
) -> np.ndarray:
    tokens = widened(x).reshape(-1, x.shape[-1])
    k, experts = node.attr("k", 1), router.shape[-1]
    if router.shape != (len(tokens), experts) or not 1 <= k <= experts:
        raise KernelError(f"{node}: router {router.shape} does not fit {len(tokens)} tokens and k {k}")
    chosen = np.argsort(-widened(router), axis=-1, kind="stable")[:, :k]  # [tokens, k]
    shares = softmax(widened(router)) if mixing is None else widened(mixing)
    shares = np.take_along_axis(shares, chosen, axis=-1)
    # QMoE takes the softmax of the chosen experts alone, which is the same as to normalize that of all.
    if node.attr("normalize_routing_weights", 0) or (node.op_type == "QMoE" and mixing is None):
        shares = shares / shares.sum(axis=-1, keepdims=True)
    y = np.zeros_like(tokens)
    for expert in np.unique(chosen).tolist():
        rows, slot = np.nonzero(chosen == expert)
        y[rows] += shares[rows, slot, None] * _through(node, tokens[rows], expert, layers)
    return y.reshape(x.shape).astype(x.dtype, copy=False)


def _through(node: NodeSpec, x: np.ndarray, expert: int, layers: list[_Layer | None]) -> np.ndarray:
    first, second, third = layers
    assert first is not None
    if second is None:
        raise KernelError(f"{node}: has no weights of the second layer")
    kind = node.attr("activation_type", "relu")
    hidden = first(x, expert)
    if kind not in _GATED:
        hidden = _PLAIN[kind](hidden)
        return second(hidden if third is None else hidden * third(x, expert), expert)
    return second(_gated(node, *_halves(node, hidden, x, expert, third)), expert)


def _halves(
    node: NodeSpec, hidden: np.ndarray, x: np.ndarray, expert: int, third: _Layer | None
) -> tuple[np.ndarray, np.ndarray]:
    """The gate and what it lets pass, by how ``swiglu_fusion`` lays them out."""
    fusion = node.attr("swiglu_fusion", 0)
    if fusion == 1:
        return hidden[:, ::2], hidden[:, 1::2]
    if fusion == 2:
        gate, up = np.split(hidden, 2, axis=-1)
        return gate, up
    if third is None:
        raise InvalidGraphError(f"{node}: swiglu_fusion 0 needs the weights of a third layer")
    return hidden, third(x, expert)


def _gated(node: NodeSpec, gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    if node.attr("activation_type") == "geglu":
        return gelu_tanh(gate) * up
    alpha, beta, limit = (node.attr(name, default) for name, default in _SWIGLU.items())
    if not node.attr("swiglu_limit_after_activation", 0):
        return swiglu(gate, up, alpha=alpha, beta=beta, limit=limit)
    bound = np.inf if limit is None else limit
    return np.minimum(gate * sigmoid(gate * np.float32(alpha)), bound) * (
        np.clip(up, -bound, bound) + np.float32(beta)
    )


_SWIGLU = {"activation_alpha": 1.0, "activation_beta": 0.0, "swiglu_limit": None}
