"""One call of GroupQueryAttention: its inputs, checked, and what follows from their shapes and lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.group_query_options import GroupQueryOptions
from onnxgen.graph.cpu.indexing import checked_indices, integers, scalar
from onnxgen.graph.cpu.kv_quantization import CacheCodec
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.ep.node import NodeSpec

INPUTS = (
    *("query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length", "cos_cache"),
    *("sin_cache", "position_ids", "attention_bias", "head_sink", "k_scale", "v_scale", "q_norm_weight"),
    *("k_norm_weight", "query_seqlens"),
)
"""Names of the inputs, in their order."""


class GroupQueryCall:
    """What the inputs mean. Of each sequence ``total = seqlens_k + 1`` tokens are there after the call, ``new`` of them in the query.

    Attributes:
        node: For messages.
        options: What the node says.
        given: The inputs by name, None where left out.
        query: ``[batch, seq, heads, head_dim]`` of the input's type.
        key: ``[batch, seq, kv_heads, head_dim]``; no rows where a layer attends to a cache that another one has filled.
        value: ``[batch, seq, kv_heads, v_head_dim]``.
        pasts: Tokens before the query, of each sequence.
        news: Valid rows of the query.
        totals: The sum of both.
        capacity: Rows of the past cache.
        cache_dtype: Element type of the caches.
        codecs: How the ``key`` and the ``value`` cache store their rows.
    """

    def __init__(self, node: NodeSpec, options: GroupQueryOptions, given: dict[str, Any]) -> None:
        self.node, self.options, self.given = node, options, given
        self.query, self.key, self.value = self._projections()
        self.batch, self.seq, _, self.head_dim = self.query.shape
        self.value_dim = self.value.shape[3]
        self.longest = int(scalar(node, given["total_sequence_length"], "total_sequence_length"))
        past = given["past_key"]
        self.capacity = 0 if past is None else past.shape[2]
        self.cache_dtype: np.dtype = given["query"].dtype if past is None else past.dtype
        self.codecs = {
            part: CacheCodec.of_node(node, part[0], given[f"{part[0]}_scale"], self.cache_dtype)
            for part in ("key", "value")
        }
        self.totals, self.news = self._lengths()
        self.pasts = [total - new for total, new in zip(self.totals, self.news, strict=True)]
        self._check_caches()

    @property
    def reuses(self) -> bool:
        """Whether there are no new keys."""
        return self.seq > 0 and not self.key.shape[1]

    @property
    def scale(self) -> float:
        """Factor of the scores."""
        return self.options.scale or self.head_dim**-0.5

    def cache_shape(self, part: str) -> tuple[int, ...]:
        """The shape of a present cache ``[batch, kv_heads, rows, width]``."""
        needed = max([self.longest, *self.totals])
        rows = self.capacity
        if not self.options.windowed_cache and self.given["query_seqlens"] is None:
            rows = max(rows, needed)
        width = self.codecs[part].stored_width(self.head_dim if part == "key" else self.value_dim)
        shape = (self.batch, self.options.kv_heads, rows or needed, width)
        require_memory(self.node, shape, self.cache_dtype)
        return shape

    def norm_weight(self, part: str) -> np.ndarray | None:
        """What heads of ``q`` or ``k`` are multiplied by after their norm, float32 ``[head_dim]``; None without a norm."""
        weight = self.given[f"{part}_norm_weight"]
        if weight is None:
            return None
        if weight.shape != (self.head_dim,):
            raise KernelError(
                f"{self.node}: {part}_norm_weight {weight.shape} does not fit heads of {self.head_dim}"
            )
        return np.ascontiguousarray(weight, np.float32)

    def norm_epsilon(self, part: str) -> float:
        """Of the norm of ``q`` or ``k``."""
        return self.node.attr(f"{part}_norm_epsilon", self.node.attr("qk_norm_epsilon", 1e-6))

    def rotary_tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Cosines and sines ``[positions, half]``."""
        cos, sin = self.given["cos_cache"], self.given["sin_cache"]
        if cos is None or sin is None:
            raise KernelError(f"{self.node}: do_rotary needs cos_cache and sin_cache")
        if cos.ndim != 2 or cos.shape != sin.shape or 2 * cos.shape[1] > self.head_dim:
            raise KernelError(
                f"{self.node}: cos_cache {cos.shape} and sin_cache {sin.shape} do not fit heads of {self.head_dim}"
            )
        return cos, sin

    def positions(self) -> np.ndarray:
        """Positions ``[batch, seq]``, each a row of the tables; those of padding are of no meaning."""
        given = self.given["position_ids"]
        if given is None:
            places = self.places()
            found = np.maximum(places, 0) if min(self.news) < self.seq else places
        elif self.seq == self.longest and self.given["query_seqlens"] is None:
            # The contract of the operator: of a first prompt's position ids only the first is used.
            found = given.reshape(-1)[0] + np.tile(np.arange(self.seq), (self.batch, 1))
        else:
            found = given.reshape(self.batch, self.seq)
        found = checked_indices(self.node, found, len(self.rotary_tables()[0]))
        return np.ascontiguousarray(found, np.int64)

    def places(self) -> np.ndarray:
        """Rows of the cache that the query's tokens belong to, int64 ``[batch, seq]``; -1 for padding."""
        steps = np.arange(self.seq)
        places = np.array(self.pasts)[:, None] + steps
        if min(self.news) < self.seq:
            places[steps >= np.array(self.news)[:, None]] = -1
        return places

    def bias(self) -> np.ndarray | None:
        """The attention bias ``[1 or batch, 1 or heads, seq, at least the longest total]``."""
        bias = self.given["attention_bias"]
        if bias is None:
            return None
        wanted = (self.batch, self.options.heads, self.seq, max(self.totals))
        fits = bias.ndim == 4 and bias.shape[0] in (1, wanted[0]) and bias.shape[1] in (1, wanted[1])
        if not fits or bias.shape[2] not in (1, wanted[2]) or bias.shape[3] < wanted[3]:
            raise KernelError(f"{self.node}: attention_bias {bias.shape} does not broadcast to {wanted}")
        return bias

    def sink(self) -> np.ndarray | None:
        """A score more in each head's denominators, ``[heads]``."""
        sink = self.given["head_sink"]
        if sink is None:
            return np.zeros(self.options.heads, np.float32) if self.options.smooth else None
        if sink.shape != (self.options.heads,):
            raise KernelError(f"{self.node}: head_sink {sink.shape} does not fit {self.options.heads} heads")
        return sink

    def _projections(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        heads, kv_heads = self.options.heads, self.options.kv_heads
        query, key, value = (self.given[name] for name in INPUTS[:3])
        if key is None:
            width = query.shape[2] // (heads + 2 * kv_heads)
            ends = heads * width, (heads + kv_heads) * width
            query, key, value = query[..., : ends[0]], query[..., ends[0] : ends[1]], query[..., ends[1] :]
        if query.shape[2] % heads or key.shape[2] % kv_heads or value.shape[2] % kv_heads or heads % kv_heads:
            raise KernelError(
                f"{self.node}: query {query.shape} and key {key.shape} do not fit {heads} and {kv_heads} heads"
            )
        if query.shape[2] // heads != key.shape[2] // kv_heads or key.shape[:2] != value.shape[:2]:
            raise KernelError(
                f"{self.node}: query {query.shape}, key {key.shape} and value {value.shape} do not fit each other"
            )
        query, key, value = (
            x.reshape(*x.shape[:2], count, x.shape[2] // count)
            for x, count in ((query, heads), (key, kv_heads), (value, kv_heads))
        )
        return query, key, value

    def _lengths(self) -> tuple[list[int], list[int]]:
        """Tokens of each sequence, and how many of them are in the query."""
        totals = [last + 1 for last in integers(self.given["seqlens_k"])]
        valid = self.given["query_seqlens"]
        news = [min(self.seq, total) for total in totals] if valid is None else integers(valid)
        if not self.reuses and self.key.shape[1] != self.seq:
            raise KernelError(
                f"{self.node}: {self.key.shape[1]} new keys for {self.seq} queries; give as many, or none"
            )
        if len(totals) != self.batch or len(news) != self.batch:
            raise KernelError(
                f"{self.node}: {len(totals)} seqlens_k and {len(news)} lengths for a batch of {self.batch}"
            )
        for total, new in zip(totals, news, strict=True):
            cached = total if self.reuses else total - new
            fits = self.options.windowed_cache or cached <= self.capacity
            if total < 1 or not 0 <= new <= min(self.seq, total) or not fits:
                raise KernelError(
                    f"{self.node}: {new} new of {total} tokens do not fit a query of {self.seq} rows and a cache of {self.capacity}"
                )
        return totals, news

    def _check_caches(self) -> None:
        past_key, past_value = self.given["past_key"], self.given["past_value"]
        if (past_key is None) != (past_value is None):
            raise KernelError(f"{self.node}: past_key and past_value come together")
        for part, past, width in (("key", past_key, self.head_dim), ("value", past_value, self.value_dim)):
            if past is None:
                continue
            wanted = (self.batch, self.options.kv_heads, self.capacity, self.codecs[part].stored_width(width))
            if past.shape != wanted or past.dtype != self.cache_dtype:
                raise KernelError(
                    f"{self.node}: past_{part} of {past.dtype} {past.shape} where {self.cache_dtype} {wanted} was expected"
                )
