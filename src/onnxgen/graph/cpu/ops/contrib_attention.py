"""Multi-head attention of ``com.microsoft`` with one key head for each query head.

Attention                          input and merged weights; one past tensor ``[2, batch, heads, past, head_dim]``
MultiHeadAttention                 projected Q, K and V in several packings; two past tensors
DecoderMaskedMultiHeadAttention    the same for one token, always over a shared cache
QAttention                         Attention whose input and weights are quantized
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.attention import attend, from_heads, to_heads
from onnxgen.graph.cpu.attention_blocks import attended
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import scalar
from onnxgen.graph.cpu.multi_head import grown, score_bias
from onnxgen.graph.cpu.products import matmul
from onnxgen.graph.cpu.quantization import dequantize
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_PRESENT_VIEWS = ((1, 0), (2, 0), (1, 1), (2, 1), (2, 2))
"""Without past and bias, present keys and values are views of the inputs that have them."""


def _rotates(node: NodeSpec) -> str | None:
    return "do_rotary inside Attention is not done here" if node.attr("do_rotary", 0) else None


@TABLE.operator("Attention", 1, domain=MICROSOFT, why_not=_rotates)
def attention(node: NodeSpec) -> Kernel:
    """Projects its input, then attends over past and new keys."""
    heads: int = node.attr("num_heads")
    shares = bool(node.attr("past_present_share_buffer", 0))

    def run(
        x: np.ndarray,
        weights: np.ndarray,
        bias: np.ndarray | None = None,
        mask: np.ndarray | None = None,
        past: np.ndarray | None = None,
        attention_bias: np.ndarray | None = None,
        past_length: np.ndarray | None = None,
    ) -> Any:
        sizes = node.attr("qkv_hidden_sizes") or (weights.shape[1] // 3,) * 3
        if sum(sizes) != weights.shape[1] or any(size % heads for size in sizes):
            raise KernelError(
                f"{node}: hidden sizes {list(sizes)} do not fit weights {weights.shape} of {heads} heads"
            )
        packed = matmul(widened(x), widened(weights))
        packed = packed if bias is None else packed + widened(bias)
        ends = np.cumsum(sizes)[:2]
        query, key, value = (to_heads(part, heads) for part in np.split(packed, ends, axis=-1))
        length = 0 if past is None else past.shape[3]
        if shares and past_length is not None:
            length = int(scalar(node, past_length, "past_sequence_length"))
        old = (None, None) if past is None else (past[0], past[1])
        keys, values = (
            grown(cache, new, length, dtype=x.dtype, shares=shares)
            for cache, new in zip(old, (key, value), strict=True)
        )
        total = length + key.shape[2]
        output = np.empty((*x.shape[:2], sizes[2]), x.dtype)
        attended(
            query,
            keys[:, :, :total],
            values[:, :, :total],
            scale=node.attr("scale", 0.0) or (sizes[0] // heads) ** -0.5,
            mask=score_bias(node, mask, attention_bias, query.shape[2], total, len(x), causal=False),
            causal=bool(node.attr("unidirectional", 0)),
            out=to_heads(output, heads),
        )
        return (
            (output, np.stack([keys, values]) if node.wants_output(1) else None)
            if len(node.outputs) > 1
            else output
        )

    return Kernel(run)


@TABLE.operator("QAttention", 1, domain=MICROSOFT, why_not=_rotates)
def qattention(node: NodeSpec) -> Kernel:
    """``Attention`` on a quantized input and quantized weights, which are dequantized."""
    attend = attention(node).run

    def run(
        x: np.ndarray,
        weights: np.ndarray,
        bias: np.ndarray,
        x_scale: np.ndarray,
        weight_scale: np.ndarray,
        mask: np.ndarray | None = None,
        x_zero_point: np.ndarray | None = None,
        weight_zero_point: np.ndarray | None = None,
        past: np.ndarray | None = None,
    ) -> Any:
        return attend(
            dequantize(x, x_scale, x_zero_point),
            dequantize(weights, weight_scale, weight_zero_point),
            bias,
            mask,
            past,
        )

    return Kernel(run)


@TABLE.operator("MultiHeadAttention", 1, domain=MICROSOFT)
def multi_head_attention(node: NodeSpec) -> Kernel:
    """Over projected queries, keys and values; the fourth output is the scores before the softmax."""
    heads = node.attr("num_heads")

    def compute(
        query: np.ndarray,
        key: np.ndarray | None,
        value: np.ndarray | None,
        bias: np.ndarray | None,
        *rest: np.ndarray | None,
        out: np.ndarray | None = None,
    ) -> Any:
        parts = _biased(_unpacked(node, query, key, value, heads), bias, key)
        return _multi_head(node, query.dtype, parts, *(*rest, *(None,) * (6 - len(rest))), out=out)

    def run(query: np.ndarray, *rest: np.ndarray | None) -> Any:
        return compute(query, *(*rest, *(None,) * max(0, 3 - len(rest))))

    def into(query: np.ndarray, *rest: Any) -> None:
        *given, y = rest
        compute(query, *(*given, *(None,) * max(0, 3 - len(given))), out=y)

    return Kernel(run, into if len(node.outputs) == 1 else None, may_alias=_PRESENT_VIEWS)


@TABLE.operator("DecoderMaskedMultiHeadAttention", 1, domain=MICROSOFT)
def decoder_masked_multi_head_attention(node: NodeSpec) -> Kernel:
    """One new token for each sequence; keys in the cache are in the plain layout, as ONNX Runtime has them on CPUs."""
    attend = multi_head_attention(node).run

    def run(
        query: np.ndarray,
        key: np.ndarray | None = None,
        value: np.ndarray | None = None,
        mask: np.ndarray | None = None,
        attention_bias: np.ndarray | None = None,
        past_key: np.ndarray | None = None,
        past_value: np.ndarray | None = None,
        past_length: np.ndarray | None = None,
        beam_width: np.ndarray | None = None,
        beams: np.ndarray | None = None,
        bias: np.ndarray | None = None,
    ) -> Any:
        if query.shape[1] != 1:
            raise KernelError(f"{node}: takes one token for each sequence, the query is {query.shape}")
        if key is None and query.ndim == 3:
            query, key, value = np.split(query, 3, axis=-1)
        return attend(query, key, value, bias, mask, attention_bias, past_key, past_value, past_length, beams)

    return Kernel(run, may_alias=_PRESENT_VIEWS)


def _unpacked(
    node: NodeSpec, query: np.ndarray, key: np.ndarray | None, value: np.ndarray | None, heads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, K and V as ``[batch, heads, seq, head_dim]`` from any packing, in float32."""
    if query.ndim == 5:  # [batch, seq, heads, 3, head_dim]
        q, k, v = (widened(query[:, :, :, part]).swapaxes(1, 2) for part in range(3))
        return q, k, v
    if key is None:
        raise KernelError(f"{node}: has no key, and its query {query.shape} is not packed with them")
    q = to_heads(widened(query), heads)
    if key.ndim == 5:  # [batch, seq, heads, 2, head_dim]
        k, v = (widened(key[:, :, :, part]).swapaxes(1, 2) for part in range(2))
        return q, k, v
    if value is None:
        raise KernelError(f"{node}: has a key {key.shape}, but no value")
    k, v = (widened(part) if part.ndim == 4 else to_heads(widened(part), heads) for part in (key, value))
    return q, k, v


def _biased(
    parts: tuple[np.ndarray, np.ndarray, np.ndarray], bias: np.ndarray | None, key: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The projections' bias added; not to keys that come from a cache, which have it already."""
    if bias is None:
        return parts
    query, k, v = parts
    heads = query.shape[1]
    sizes = [heads * part.shape[3] for part in (query, query, v)]
    cached = key is not None and key.ndim == 4
    terms = [term.reshape(heads, 1, -1) for term in np.split(widened(bias), np.cumsum(sizes)[:2])]
    return query + terms[0], k if cached else k + terms[1], v if cached else v + terms[2]


def _multi_head(
    node: NodeSpec,
    dtype: np.dtype,
    parts: tuple[np.ndarray, np.ndarray, np.ndarray],
    mask: np.ndarray | None,
    attention_bias: np.ndarray | None,
    past_key: np.ndarray | None,
    past_value: np.ndarray | None,
    past_length: np.ndarray | None,
    beams: np.ndarray | None,
    *,
    out: np.ndarray | None = None,
) -> Any:
    query, key, value = parts
    shares = past_length is not None and past_key is not None
    length = 0 if past_key is None else past_key.shape[2]
    if past_length is not None and shares:
        length = int(scalar(node, past_length, "past_sequence_length"))
    total = length + key.shape[2]
    keys = grown(past_key, key, length, dtype=dtype, shares=shares)
    values = grown(past_value, value, length, dtype=dtype, shares=shares)
    seen_keys, seen_values = keys[:, :, :total], values[:, :, :total]
    if beams is not None:
        seen_keys, seen_values = (_followed(part, beams, length) for part in (seen_keys, seen_values))
    causal, shows_scores = bool(node.attr("unidirectional", 0)), node.wants_output(3)
    bias = score_bias(
        node, mask, attention_bias, query.shape[2], total, len(query), causal=causal and shows_scores
    )
    scale, scores = node.attr("scale", 0.0) or query.shape[3] ** -0.5, None
    if shows_scores:
        found = attend(query, widened(seen_keys), widened(seen_values), scale=scale, bias=bias)
        output, scores = (
            from_heads(found.output).astype(dtype, copy=False),
            found.scores.astype(dtype, copy=False),
        )
    else:
        shape = len(query), query.shape[2], query.shape[1] * value.shape[3]
        output = np.empty(shape, dtype) if out is None else out
        heads_of_output = to_heads(output, query.shape[1])
        attended(query, seen_keys, seen_values, scale=scale, mask=bias, causal=causal, out=heads_of_output)
    results = (output, keys, values, scores)
    wanted = tuple(r if node.wants_output(i) else None for i, r in enumerate(results[: len(node.outputs)]))
    return wanted if len(wanted) > 1 else output


def _followed(cache: np.ndarray, beams: np.ndarray, length: int) -> np.ndarray:
    """The cache ``[batch * beam, heads, keys, head_dim]`` with each past row from the beam that it came from."""
    batch, width, _ = beams.shape
    rows = np.arange(batch)[:, None, None] * width + beams[:, :, :length]  # [batch, beam, past]
    followed = cache.copy()
    places = np.arange(length)[None, :]
    followed[:, :, :length] = cache[rows.reshape(batch * width, length), :, places].swapaxes(1, 2)
    return followed
