"""Losses: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.cpu.softmax import log_softmax
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


def nll_loss(
    log_prob: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None,
    *,
    ignore_index: int | None,
    reduction: str,
) -> np.ndarray:
    """``-weight[target] * log_prob[target]`` of every position, summed or averaged as ``reduction`` says.

    Args:
        log_prob: (N, C, d1, ..., dk) logarithms of probabilities.
        target: (N, d1, ..., dk) classes.
        weight: (C) weights of the classes; None for 1.
        ignore_index: The class that counts as nothing.
        reduction: ``none``, ``sum`` or ``mean`` (by the sum of weights).
    """
    classes = log_prob.shape[1]
    ignored = target == ignore_index if ignore_index is not None else np.zeros(target.shape, bool)
    outside = ~ignored & ((target < 0) | (target >= classes))
    if outside.any():
        raise KernelError(f"target {int(target[outside][0])} is none of {classes} classes")
    chosen = np.where(ignored, 0, target)
    picked = np.take_along_axis(log_prob, np.expand_dims(chosen, 1), 1).squeeze(1)
    factor = np.ones(target.shape, log_prob.dtype) if weight is None else weight[chosen]
    factor = np.where(ignored, 0, factor).astype(log_prob.dtype, copy=False)
    loss = -picked * factor
    if reduction == "none":
        return loss
    return np.asarray(loss.sum() if reduction == "sum" else loss.sum() / factor.sum())


def _reduction(node: NodeSpec) -> str:
    reduction = node.attr("reduction", "mean")
    if reduction not in ("none", "sum", "mean"):
        raise KernelError(f"{node}: reduction {reduction!r} is none of none, sum, mean")
    return reduction


@TABLE.operator("NegativeLogLikelihoodLoss", 12, 13, 22)
def negative_log_likelihood_loss(node: NodeSpec) -> Kernel:
    """`nll_loss` of logarithms of probabilities."""
    reduction, ignore_index = _reduction(node), node.attr("ignore_index")

    def run(log_prob: np.ndarray, target: np.ndarray, weight: Any = None) -> np.ndarray:
        loss = nll_loss(
            widened(log_prob), target, widened(weight), ignore_index=ignore_index, reduction=reduction
        )
        return loss.astype(log_prob.dtype, copy=False)

    return Kernel(run)


@TABLE.operator("SoftmaxCrossEntropyLoss", 12, 13)
def softmax_cross_entropy_loss(node: NodeSpec) -> Kernel:
    """`nll_loss` of the logarithms of the softmax over axis 1, which are the second output."""
    reduction, ignore_index = _reduction(node), node.attr("ignore_index")
    num_outputs = len(node.outputs)

    def run(scores: np.ndarray, target: np.ndarray, weight: Any = None) -> Any:
        wide = widened(scores)
        log_prob = np.empty(wide.shape, wide.dtype)
        if wide.size:
            log_softmax(wide, log_prob, 1)
        loss = nll_loss(log_prob, target, widened(weight), ignore_index=ignore_index, reduction=reduction)
        results = loss.astype(scores.dtype, copy=False), log_prob.astype(scores.dtype, copy=False)
        return results if num_outputs > 1 else results[0]

    return Kernel(run)
