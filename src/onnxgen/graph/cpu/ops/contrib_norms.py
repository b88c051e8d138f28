"""Normalizations as ONNX Runtime's optimizer and exporters for it write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import checked_axis, checked_indices
from onnxgen.graph.cpu.normalization import normalized
from onnxgen.graph.cpu.quantization import dequantize
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.row_norms import can_norm, norm_halves, norm_rows, repeats, serves_halves
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


def _results(node: NodeSpec, *found: Any) -> Any:
    wanted = [value if node.wants_output(i) else None for i, value in enumerate(found[: len(node.outputs)])]
    return wanted[0] if len(wanted) == 1 else tuple(wanted)


def _stashes_narrow(node: NodeSpec) -> str | None:
    stash = node.attr("stash_type", 1)
    return None if stash == 1 else f"statistics are not kept in stash_type {stash} here, only in 1 (float)"


@TABLE.operator("LayerNormalization", 1, why_not=_stashes_narrow)
@TABLE.operator("LayerNormalization", 1, domain=MICROSOFT, why_not=_stashes_narrow)
def layer_normalization_1(node: NodeSpec) -> Kernel:
    """The standard's operator in models older than its opset 17."""
    axis, epsilon = node.attr("axis", -1), node.attr("epsilon", 1e-5)

    def run(x: np.ndarray, scale: np.ndarray, bias: np.ndarray | None = None) -> Any:
        axes = tuple(range(checked_axis(node, axis, x.ndim), x.ndim))
        if serves_halves(x, axes, scale, bias):
            return _results(node, *norm_halves(x, axes, epsilon, centered=True, weight=scale, offset=bias))
        y, mean, inverse = normalized(
            widened(x), axes, epsilon, centered=True, scale=widened(scale), bias=widened(bias)
        )
        return _results(node, y.astype(scale.dtype, copy=False), mean, inverse)

    return Kernel(run)


@TABLE.operator("SimplifiedLayerNormalization", 1, why_not=_stashes_narrow)
@TABLE.operator("SimplifiedLayerNormalization", 1, domain=MICROSOFT, why_not=_stashes_narrow)
def simplified_layer_normalization(node: NodeSpec) -> Kernel:
    """By the root of the mean square; the output has the type of the scale."""
    axis, epsilon = node.attr("axis", -1), node.attr("epsilon", 1e-5)

    def run(x: np.ndarray, scale: np.ndarray) -> Any:
        axes = tuple(range(checked_axis(node, axis, x.ndim), x.ndim))
        if serves_halves(x, axes, scale, None):
            y, _, inverse = norm_halves(x, axes, epsilon, centered=False, weight=scale)
            return _results(node, y, inverse)
        y, _, inverse = normalized(widened(x), axes, epsilon, centered=False, scale=widened(scale))
        return _results(node, y.astype(scale.dtype, copy=False), inverse)

    return Kernel(run)


@TABLE.operator("SkipLayerNormalization", 1, domain=MICROSOFT)
def skip_layer_normalization(node: NodeSpec) -> Kernel:
    """Of the sum of input, skip and bias, which is the fourth output."""
    epsilon = node.attr("epsilon", 1e-12)

    def run(
        x: np.ndarray,
        skip: np.ndarray,
        gamma: np.ndarray,
        beta: np.ndarray | None = None,
        bias: np.ndarray | None = None,
    ) -> Any:
        return _skip(node, (x, skip, bias), gamma, beta, epsilon, centered=True)

    def into(x: np.ndarray, skip: np.ndarray, gamma: np.ndarray, *rest: Any) -> None:
        *given, y = rest
        beta, bias = [*given, None, None][:2]
        _skip_into(node, (x, skip, bias), gamma, beta, epsilon, y, centered=True)

    return Kernel(run, into if len(node.outputs) == 1 else None, in_place=((0, 0), (0, 1)))


@TABLE.operator("SkipSimplifiedLayerNormalization", 1, domain=MICROSOFT)
def skip_simplified_layer_normalization(node: NodeSpec) -> Kernel:
    """By the root of the mean square, of the sum of input, skip and bias, which is the fourth output."""
    epsilon = node.attr("epsilon", 1e-12)

    def run(x: np.ndarray, skip: np.ndarray, gamma: np.ndarray, bias: np.ndarray | None = None) -> Any:
        return _skip(node, (x, skip, bias), gamma, None, epsilon, centered=False)

    def into(x: np.ndarray, skip: np.ndarray, gamma: np.ndarray, *rest: Any) -> None:
        *bias, y = rest
        _skip_into(node, (x, skip, bias[0] if bias else None), gamma, None, epsilon, y, centered=False)

    return Kernel(run, into if len(node.outputs) == 1 else None, in_place=((0, 0), (0, 1)))


def _skip(
    node: NodeSpec,
    terms: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    gamma: np.ndarray,
    beta: np.ndarray | None,
    epsilon: float,
    *,
    centered: bool,
) -> Any:
    x, skip, bias = terms
    wants_sum = node.wants_output(3)
    if x.size and _serves(terms, gamma, beta):
        y, total = np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype) if wants_sum else None
        means, inverses = np.empty((2, *x.shape[:-1], 1), np.float32)
        norm_rows(
            *(x, y),
            epsilon=epsilon,
            centered=centered,
            weight=gamma,
            offset=beta,
            skip=skip,
            bias=bias,
            total=total,
            means=means,
            inverses=inverses,
        )
        return _results(node, y, means, inverses, total)
    wide = widened(x) + widened(skip)
    if wide.shape != x.shape:
        raise KernelError(f"{node}: skip {skip.shape} does not broadcast to input {x.shape}")
    wide = wide if bias is None else wide + widened(bias)
    y, mean, inverse = normalized(
        wide, (-1,), epsilon, centered=centered, scale=widened(gamma), bias=widened(beta)
    )
    return _results(node, y.astype(x.dtype, copy=False), mean, inverse, wide.astype(x.dtype, copy=False))


def _serves(
    terms: tuple[np.ndarray, np.ndarray, np.ndarray | None], gamma: np.ndarray, beta: np.ndarray | None
) -> bool:
    """Whether one compiled pass can do it: types that it reads, and a skip that is added again and again."""
    x, skip, bias = terms
    same = skip.dtype == x.dtype and (bias is None or bias.dtype == x.dtype)
    return same and can_norm(x, gamma, beta) and repeats(skip, x.shape)


def _skip_into(
    node: NodeSpec,
    terms: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    gamma: np.ndarray,
    beta: np.ndarray | None,
    epsilon: float,
    y: np.ndarray,
    *,
    centered: bool,
) -> None:
    """`_skip` where nobody asks for more than the result."""
    x, skip, bias = terms
    if x.size and _serves(terms, gamma, beta):
        norm_rows(x, y, epsilon=epsilon, centered=centered, weight=gamma, offset=beta, skip=skip, bias=bias)
    else:
        y[...] = _skip(node, terms, gamma, beta, epsilon, centered=centered)


@TABLE.operator("EmbedLayerNormalization", 1, domain=MICROSOFT)
def embed_layer_normalization(node: NodeSpec) -> Kernel:
    """BERT's first layer: the sum of word, position and segment embeddings, normalized; and how long each row is.

    ``mask_index_type`` is for shape inference.
    """
    epsilon = node.attr("epsilon", 1e-12)

    def run(
        ids: np.ndarray,
        segments: np.ndarray | None,
        words: np.ndarray,
        positions: np.ndarray,
        segment_table: np.ndarray | None,
        gamma: np.ndarray,
        beta: np.ndarray,
        mask: np.ndarray | None = None,
        position_ids: np.ndarray | None = None,
    ) -> Any:
        places = np.arange(ids.shape[1])[None] if position_ids is None else position_ids
        total = _rows(node, words, ids) + _rows(node, positions, places)
        if segments is not None and segment_table is not None:
            total = total + _rows(node, segment_table, segments)
        y, _, _ = normalized(total, (-1,), epsilon, centered=True, scale=widened(gamma), bias=widened(beta))
        y = y.astype(words.dtype, copy=False)
        lengths = np.zeros(len(ids)) if mask is None else (mask == 1).sum(axis=1)
        return _results(node, y, lengths.astype(np.int32), total.astype(words.dtype, copy=False))

    return Kernel(run)


@TABLE.operator("QEmbedLayerNormalization", 1, domain=MICROSOFT)
def qembed_layer_normalization(node: NodeSpec) -> Kernel:
    """``EmbedLayerNormalization`` with quantized tables and weights, which are dequantized."""
    embed = embed_layer_normalization(node).run

    def run(
        ids: np.ndarray,
        segments: np.ndarray | None,
        words: np.ndarray,
        positions: np.ndarray,
        segment_table: np.ndarray | None,
        gamma: np.ndarray,
        beta: np.ndarray,
        mask: np.ndarray | None,
        *parameters: np.ndarray | None,
    ) -> Any:
        tables = (words, positions, segment_table, gamma, beta)
        scales, zeros = parameters[:5], parameters[5:]
        reals = [
            None if table is None or scale is None else dequantize(table, scale, zero)
            for table, scale, zero in zip(tables, scales, zeros, strict=True)
        ]
        return embed(ids, segments, *reals, mask)

    return Kernel(run)


def _rows(node: NodeSpec, table: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return widened(table[checked_indices(node, indices, len(table))])
