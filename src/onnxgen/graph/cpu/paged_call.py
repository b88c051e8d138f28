"""One call of PagedAttention: its inputs, checked, and what follows from their shapes and lengths."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import checked_bounds, checked_indices, integers
from onnxgen.graph.cpu.kv_quantization import CacheCodec
from onnxgen.graph.ep.node import NodeSpec

INPUTS = (
    *("query", "key", "value", "key_cache", "value_cache", "offsets", "past", "block_table", "cos", "sin"),
    *("slot_mapping", "head_sink", "q_norm", "k_norm", "k_scale", "v_scale", "metadata"),
)
"""Names of the inputs, in their order."""


class PagedCall:
    """What the inputs mean.

    Attributes:
        node: For messages.
        given: The inputs by name, None where left out.
        query: ``[tokens, heads, head_dim]`` of the input's type.
        key: ``[tokens, kv_heads, head_dim]``.
        value: ``[tokens, kv_heads, v_head_dim]``; None where values are the first columns of keys.
        bounds: Where sequences begin among the tokens, and where the last one ends.
        pasts: Tokens of each sequence that are cached already.
        positions: int64 ``[tokens]``, of each token in its sequence.
        block_size: Rows of a block.
        value_dim: Width of a head of the output.
    """

    def __init__(self, node: NodeSpec, given: dict[str, Any]) -> None:
        self.node, self.given = node, given
        self.heads, self.kv_heads = node.attr("num_heads"), node.attr("kv_num_heads")
        self.query, self.key, self.value = self._projections()
        self.bounds = checked_bounds(node, given["offsets"], len(self.query))
        self.pasts, self.table = integers(given["past"]), given["block_table"]
        self.block_size = given["key_cache"].shape[1]
        if (
            len(self.bounds) != len(self.pasts) + 1
            or min(self.pasts, default=0) < 0
            or len(self.table) != len(self.pasts)
        ):
            raise KernelError(
                f"{node}: offsets {self.bounds}, past lengths {self.pasts} and block tables {self.table.shape} do not fit"
            )
        self.news = [b - a for a, b in zip(self.bounds, self.bounds[1:], strict=False)]
        starts = np.array(self.pasts, np.int64) - self.bounds[:-1]
        self.positions = np.arange(len(self.query)) + np.repeat(starts, self.news)
        self.value_dim = (
            node.attr("v_head_size", 0) or (self.key if self.value is None else self.value).shape[2]
        )
        window = node.attr("local_window_size", -1)
        self.window = window if window >= 0 else None
        self._check_caches()

    @property
    def scale(self) -> float:
        """Factor of the scores."""
        return self.node.attr("scale", 0.0) or self.query.shape[2] ** -0.5

    @property
    def causal(self) -> bool:
        """Whether later keys are hidden."""
        return bool(self.node.attr("is_causal", 1))

    @property
    def norm_epsilon(self) -> float:
        """Of the norms of queries and keys."""
        return self.node.attr("qk_norm_epsilon", 1e-6)

    @property
    def rotary_offset(self) -> int:
        """Where in a head the rotated elements begin."""
        return self.node.attr("rotary_offset", 0)

    @property
    def rotary_interleaved(self) -> bool:
        """Whether rotated pairs are neighbours."""
        return bool(self.node.attr("rotary_interleaved", 0))

    def rotary_tables(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Cosines and sines ``[positions, half]`` that hold every position; None where nothing is rotated."""
        if not self.node.attr("do_rotary", 0):
            return None
        cos, sin = self.given["cos"], self.given["sin"]
        if cos is None or sin is None:
            raise KernelError(f"{self.node}: do_rotary needs cos_cache and sin_cache")
        room = self.query.shape[2] - self.rotary_offset
        if cos.ndim != 2 or cos.shape != sin.shape or 2 * cos.shape[1] > room:
            raise KernelError(
                f"{self.node}: cos_cache {cos.shape} and sin_cache {sin.shape} do not fit {room} elements of a head"
            )
        checked_indices(self.node, self.positions, len(cos))
        return cos, sin

    def norm_weight(self, name: str) -> np.ndarray | None:
        """What heads are multiplied by after their norm, float32 ``[head_dim]``; None without a norm."""
        weight = self.given[name]
        if weight is None:
            return None
        if weight.shape != (self.query.shape[2],):
            raise KernelError(
                f"{self.node}: {name} {weight.shape} does not fit heads of {self.query.shape[2]}"
            )
        return np.ascontiguousarray(widened(weight))

    def sink(self) -> np.ndarray | None:
        """A score more in each head's denominators, float32 ``[heads]``."""
        sink = self.given["head_sink"]
        if sink is None:
            return None
        if sink.shape != (self.heads,):
            raise KernelError(f"{self.node}: head_sink {sink.shape} does not fit {self.heads} heads")
        return np.ascontiguousarray(widened(sink))

    def codec(self, part: str) -> CacheCodec:
        """How the ``k`` or ``v`` cache stores its rows."""
        cache = self.given["value_cache" if part == "v" else "key_cache"]
        scale = self.given[f"{part}_scale"]
        if self.node.attr(f"{part}_quant_type", "NONE") == "NONE":
            return CacheCodec(cache.dtype, None, None)
        if scale is None:
            raise KernelError(f"{self.node}: a quantized cache needs the input {part}_scale")
        is_float = cache.dtype == np.dtype(ml_dtypes.float8_e4m3fn)
        bits = None if is_float else 4 if self.node.attr(f"{part}_cache_dtype", "") == "int4" else 8
        return CacheCodec(cache.dtype, bits, scale.reshape(() if scale.size == 1 else scale.shape[-3:]))

    def slots(self) -> np.ndarray:
        """The row, among those of all blocks, that each token's key and value go to, int64 ``[tokens]``; negative for none."""
        slots = self.given["slot_mapping"]
        if slots is None:
            rows = np.repeat(np.arange(len(self.pasts)), self.news)
            slots = slots_of(self.table[rows], self.positions, self.block_size)
        if slots.shape != (len(self.query),):
            raise KernelError(
                f"{self.node}: slot_mapping {slots.shape} does not fit {len(self.query)} tokens"
            )
        checked_indices(self.node, slots[slots >= 0], len(self.given["key_cache"]) * self.block_size)
        return np.ascontiguousarray(slots, np.int64)

    def _projections(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        query, key, value = (self.given[name] for name in INPUTS[:3])
        if key is None:
            width = query.shape[1] // (self.heads + 2 * self.kv_heads)
            ends = self.heads * width, (self.heads + self.kv_heads) * width
            query, key, value = query[:, : ends[0]], query[:, ends[0] : ends[1]], query[:, ends[1] :]
        fits = query.shape[1] % self.heads == 0 and key.shape[1] % self.kv_heads == 0
        if (
            not fits
            or self.heads % self.kv_heads
            or query.shape[1] * self.kv_heads != key.shape[1] * self.heads
        ):
            raise KernelError(
                f"{self.node}: query {query.shape} and key {key.shape} do not fit {self.heads} and {self.kv_heads} heads"
            )
        if len(key) != len(query) or (
            value is not None and (len(value) != len(key) or value.shape[1] % self.kv_heads)
        ):
            raise KernelError(
                f"{self.node}: key {key.shape} and value {None if value is None else value.shape} do not fit {len(query)} tokens"
            )
        q, k = (x.reshape(len(x), count, -1) for x, count in ((query, self.heads), (key, self.kv_heads)))
        return q, k, None if value is None else value.reshape(len(value), self.kv_heads, -1)

    def _check_caches(self) -> None:
        for part, new in (("key", self.key), ("value", self.value)):
            cache = self.given[f"{part}_cache"]
            if new is None or cache is None:
                continue
            wanted = (self.block_size, self.kv_heads, self.codec(part[0]).stored_width(new.shape[2]))
            if cache.shape[1:] != wanted:
                raise KernelError(
                    f"{self.node}: {part}_cache {cache.shape} where blocks of {wanted} were expected"
                )


def slots_of(tables: np.ndarray, positions: np.ndarray, block_size: int) -> np.ndarray:
    """The flat slot of each position in its row of block ids, or in the only one; -1 where the page is not mapped."""
    pages = positions // block_size
    mapped = pages < tables.shape[1]
    rows = np.arange(len(tables)) if len(tables) == len(pages) else 0
    blocks = np.where(mapped, tables[rows, np.where(mapped, pages, 0)], -1)
    return np.where(blocks < 0, -1, blocks.astype(np.int64) * block_size + positions % block_size)
