"""Mixtures of experts: MoE with float weights, QMoE with integer ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.expert_activation import GATED, KINDS, ExpertActivation
from onnxgen.graph.cpu.expert_weights import ExpertBlocks, dense_projection, quantized_projection
from onnxgen.graph.cpu.experts import Experts, Mixture, Projection
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.half_conversion import converted
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

Given = Mapping[int, np.ndarray | None]
"""Inputs of a node by their index."""


def _unknown(node: NodeSpec) -> str | None:
    activation = node.attr("activation_type", "relu")
    if activation not in KINDS:
        return f"activation_type {activation!r} is none of {', '.join(KINDS)}"
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
    turns = _turns(node)

    def projection(given: Given, layer: int, *, keep: bool) -> Projection | None:
        weights, bias = (given.get(2 + 2 * layer + index) for index in range(2))
        if weights is None:
            return None
        return dense_projection(weights, bias, in_turns=turns and layer == 0, pack=keep)

    return _kernel(node, projection, {layer: (2 + 2 * layer,) for layer in range(3)}, mixing=None)


@TABLE.operator("QMoE", 1, domain=MICROSOFT, why_not=_unknown)
def quantized_moe(node: NodeSpec) -> Kernel:
    """The same with weights of 2, 3, 4 or 8 bits.

    Constant weights are multiplied by activations of int8 where ``accuracy_level`` is 4, else of int16; others in float32.
    """
    turns, level = _turns(node), node.attr("accuracy_level", 0)

    def projection(given: Given, layer: int, *, keep: bool) -> Projection | None:
        codes, scales, bias = (given.get(2 + 3 * layer + index) for index in range(3))
        if codes is None:
            return None
        if scales is None:
            raise KernelError(f"{node}: quantized weights {codes.shape} have no scales")
        bits = node.attr(f"fc{layer + 1}_expert_weight_bits", node.attr("expert_weight_bits", 4))
        blocks = ExpertBlocks(codes, scales, given.get(11 + layer), bits, node.attr("block_size", 0))
        return quantized_projection(
            blocks, bias, in_turns=turns and layer == 0, level=level if keep else None
        )

    weights = {layer: (2 + 3 * layer, 3 + 3 * layer, 11 + layer) for layer in range(3)}
    return _kernel(node, projection, weights, mixing=14)


def _turns(node: NodeSpec) -> bool:
    """Whether gates and what they gate take turns in the first layer."""
    return node.attr("activation_type", "relu") in GATED and node.attr("swiglu_fusion", 0) == 1


def _kernel(
    node: NodeSpec,
    projection: Callable[..., Projection | None],
    weights: Mapping[int, tuple[int, ...]],
    *,
    mixing: int | None,
) -> Kernel:
    """The kernel of either operator.

    Args:
        node: The node.
        projection: ``projection(inputs, layer, keep=)``: of layer 0, 1 or 2; packed where it is to be kept.
        weights: Inputs that a packed layer absorbs.
        mixing: The input that says what experts count for, if the operator has it.
    """
    k, quantized = node.attr("k", 1), node.op_type == "QMoE"
    normalize = bool(node.attr("normalize_routing_weights", 0))
    # QMoE takes the softmax of the chosen experts alone, which is the same as to normalize that of all.
    has_mixing = mixing is not None and node.has_input(mixing)
    mixture = Mixture(k, normalize=normalize or (quantized and not has_mixing))
    width = 3 if quantized else 2
    constant = all(
        index in node.constants
        for layer in range(3)
        for index in (*weights[layer], 1 + width * (layer + 1))
        if node.has_input(index)
    )
    kept = _experts(node, lambda layer: projection(node.constants, layer, keep=True)) if constant else None
    table = None if kept is None else kept.table()

    def run(x: np.ndarray, router: np.ndarray, *others: np.ndarray | None) -> np.ndarray:
        given = dict(enumerate((x, router, *others)))
        tokens = np.ascontiguousarray(widened(x)).reshape(-1, x.shape[-1])
        scores = np.ascontiguousarray(widened(router))
        if router.shape[:-1] != (len(tokens),) or not 1 <= k <= router.shape[-1]:
            raise KernelError(f"{node}: router {router.shape} does not fit {len(tokens)} tokens and k {k}")
        experts = kept or _experts(node, lambda layer: projection(given, layer, keep=False))
        shares = None if mixing is None else given.get(mixing)
        shares = None if shares is None else np.ascontiguousarray(widened(shares))
        y = mixture.run(tokens, scores, shares, experts, table).reshape(x.shape)
        return y if x.dtype == np.float32 else converted(y, x.dtype)

    absorbed = tuple(index for layer in range(3) for index in weights[layer])
    return Kernel(run, absorbed=absorbed if kept is not None else ())


def _experts(node: NodeSpec, projection: Callable[[int], Projection | None]) -> Experts:
    first, second, third = map(projection, range(3))
    if first is None or second is None:
        raise KernelError(f"{node}: has no weights of the {'first' if first is None else 'second'} layer")
    kind, fusion = node.attr("activation_type", "relu"), node.attr("swiglu_fusion", 0)
    if kind in GATED and fusion == 0 and third is None:
        raise InvalidGraphError(f"{node}: swiglu_fusion 0 needs the weights of a third layer")
    first = [first] if third is None or (kind in GATED and fusion) else [first, third]
    activation = ExpertActivation(
        kind,
        gated=kind in GATED or third is not None,
        alpha=node.attr("activation_alpha", 1.0),
        beta=node.attr("activation_beta", 0.0),
        limit=node.attr("swiglu_limit"),
        limit_last=kind == "swiglu" and bool(node.attr("swiglu_limit_after_activation", 0)),
    )
    return Experts(first, activation, second)
