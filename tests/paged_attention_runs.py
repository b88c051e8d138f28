"""Steps of paged attention alone: sequences as arrays in, rows of heads out, through the kernels and in float64."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnxgen.graph.cpu.aligned_memory import aligned
from onnxgen.graph.cpu.compiled.header import HEADER_WORDS, Header
from onnxgen.graph.cpu.paged_attention import PagedAttention, Rotation
from onnxgen.graph.cpu.step.running import run_kernel, run_parts


@dataclass
class Chunk:
    """New tokens of one sequence: float32 ``[tokens, heads * head_dim + kv_heads * (head_dim + value_dim)]``."""

    rows: np.ndarray
    context: int
    blocks: list[int]


@dataclass
class Tables:
    """What rotates and norms; absent where the attention does neither."""

    cos: np.ndarray | None = None
    sin: np.ndarray | None = None
    query_norm: np.ndarray | None = None
    key_norm: np.ndarray | None = None
    epsilon: float = 1e-6
    sinks: np.ndarray | None = None


@dataclass
class Cache:
    """Blocks of one layer, filled with what no result may depend on."""

    attention: PagedAttention
    num_blocks: int
    block_size: int
    garbage: int = 0xFF
    memory: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.block_bytes = self.attention.pages(block_size=self.block_size).block_bytes
        self.memory = aligned(self.num_blocks * self.block_bytes)
        self.memory[:] = self.garbage


def address(array: np.ndarray | None) -> int:
    return 0 if array is None else array.ctypes.data


class StepRun:
    """One step over a cache: `write`, `plan`, `attend`."""

    def __init__(
        self,
        cache: Cache,
        chunks: list[Chunk],
        tables: Tables,
        *,
        workers: int = 2,
        most_partials: int = 4096,
    ):
        attention = cache.attention
        self.cache, self.tables = cache, tables
        self.rows = np.ascontiguousarray(np.concatenate([chunk.rows for chunk in chunks]), np.float32)
        tokens, seqs = len(self.rows), len(chunks)
        width = max(len(chunk.blocks) for chunk in chunks)
        self.table = np.full((seqs, width), -1, np.int32)
        for seq, chunk in enumerate(chunks):
            self.table[seq, : len(chunk.blocks)] = chunk.blocks
        lengths = [len(chunk.rows) for chunk in chunks]
        self.cu_seqlens = np.cumsum([0, *lengths], dtype=np.int32)
        self.contexts = np.array([chunk.context for chunk in chunks], np.int32)
        self.positions = np.concatenate(
            [np.arange(chunk.context, chunk.context + len(chunk.rows)) for chunk in chunks]
        ).astype(np.int64)
        self.slots = np.concatenate(
            [
                np.array(chunk.blocks)[positions // cache.block_size] * cache.block_size
                + positions % cache.block_size
                for chunk in chunks
                for positions in [np.arange(chunk.context, chunk.context + len(chunk.rows))]
            ]
        ).astype(np.int64)
        self.header = np.zeros(HEADER_WORDS, np.int64)
        for name, value in {
            Header.TOKENS: tokens,
            Header.SEQS: seqs,
            Header.POSITIONS: address(self.positions),
            Header.CU_SEQLENS: address(self.cu_seqlens),
            Header.CONTEXT_LENS: address(self.contexts),
            Header.BLOCK_TABLE: address(self.table),
            Header.BLOCK_TABLE_WIDTH: width,
            Header.BLOCK_SIZE: cache.block_size,
            Header.SLOTS: address(self.slots),
        }.items():
            self.header[name] = value
        self.workers, self.most_partials = workers, most_partials
        self.most_items = attention.most_items(tokens, seqs, workers)
        self.items = aligned(attention.items_bytes(self.most_items))
        self.partials = aligned(attention.partials_bytes(most_partials))
        self.queries = aligned(attention.query_bytes(tokens))
        self.query_scales = aligned(attention.query_scale_bytes(tokens))
        self.out = np.full((tokens, attention.heads * attention.value_dim), np.nan, np.float32)
        queries, keys = attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim
        self.shared: dict[str, Any] = {
            "queries": address(self.queries),
            "query_scales": address(self.query_scales),
            "pages": address(cache.memory),
            "block_bytes": cache.block_bytes,
        }
        self.write_arguments: dict[str, Any] = {
            **attention.write_constants(),
            **self.shared,
            "rows": address(self.rows),
            "row_bytes": self.rows.strides[0],
            "slots_word": int(Header.SLOTS),
            "query_column": 0,
            "key_column": queries,
            "value_column": queries + keys,
            "query_norm": address(tables.query_norm),
            "key_norm": address(tables.key_norm),
            "epsilon": tables.epsilon,
            "cos": address(tables.cos),
            "sin": address(tables.sin),
        }
        self.plan_arguments: dict[str, Any] = {
            **attention.plan_constants(),
            "items": address(self.items),
            "most_items": self.most_items,
            "most_partials": most_partials,
            "workers": workers,
        }
        self.attend_arguments: dict[str, Any] = {
            **attention.attend_constants(),
            **self.shared,
            "table_word": int(Header.BLOCK_TABLE),
            "out": address(self.out),
            "out_stride": self.out.strides[0],
            "sinks": address(tables.sinks),
            "items": address(self.items),
            "partials": address(self.partials),
        }

    def run(
        self, *, parts: int = 1, order: list[int] | None = None, threads: int | None = None
    ) -> np.ndarray:
        """All three kernels, their parts one after another in ``order``, or on threads; float32 ``[tokens, heads * value_dim]``."""
        attention = self.cache.attention
        for kernel, arguments, count in (
            (attention.write_kernel(), self.write_arguments, parts),
            (attention.plan_kernel(), self.plan_arguments, 1),
            (attention.attend_kernel(), self.attend_arguments, parts),
        ):
            if threads:
                run_kernel(kernel, parts=count, threads=threads, header=self.header, **arguments)
            else:
                run_parts(
                    kernel, parts=count, order=order if count > 1 else None, header=self.header, **arguments
                )
        return self.out

    @property
    def num_items(self) -> int:
        return int(self.header[Header.NUM_ITEMS])


def expected(attention: PagedAttention, rows: np.ndarray, tables: Tables) -> np.ndarray:
    """Attention of one whole sequence in float64, ``[tokens, heads * value_dim]``."""
    a, tokens = attention, len(rows)
    q, k, v = np.split(
        rows.astype(np.float64), [a.heads * a.head_dim, (a.heads + a.kv_heads) * a.head_dim], axis=1
    )
    q, k = q.reshape(tokens, a.heads, a.head_dim), k.reshape(tokens, a.kv_heads, a.head_dim)
    v = v.reshape(tokens, a.kv_heads, a.value_dim)
    if a.norm:
        q, k = (
            x / np.sqrt((x * x).mean(-1, keepdims=True) + tables.epsilon) * weights.astype(np.float64)
            for x, weights in ((q, tables.query_norm), (k, tables.key_norm))
        )
    if a.rotary_dim:
        q, k = rotated(a, q, tables), rotated(a, k, tables)
    k, v = np.repeat(k, a.group, axis=1), np.repeat(v, a.group, axis=1)
    scores = np.einsum("thd,shd->hts", q, k) * (a.scale if a.scale is not None else a.head_dim**-0.5)
    if a.softcap is not None:
        scores = np.tanh(scores / a.softcap) * a.softcap
    ahead = np.arange(tokens) - np.arange(tokens)[:, None]
    seen = (ahead <= 0) & (ahead > -(a.window or tokens))
    scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    if tables.sinks is not None:
        top = np.maximum(top, tables.sinks[:, None, None])
    powers = np.exp(scores - top)
    total = powers.sum(-1, keepdims=True)
    if tables.sinks is not None:
        total += np.exp(tables.sinks[:, None, None].astype(np.float64) - top)
    return np.einsum("hts,shd->thd", powers / total, v).reshape(tokens, -1)


def rotated(attention: PagedAttention, x: np.ndarray, tables: Tables) -> np.ndarray:
    half = attention.rotary_dim // 2
    neighbours = attention.rotation is Rotation.NEIGHBOURS
    first = slice(0, 2 * half, 2) if neighbours else slice(0, half)
    second = slice(1, 2 * half, 2) if neighbours else slice(half, 2 * half)
    cos, sin = (table[: len(x), None].astype(np.float64) for table in (tables.cos, tables.sin))
    y = x.copy()
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y
