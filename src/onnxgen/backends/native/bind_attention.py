"""Attention calls as rows of a step's table, and the memory that all layers share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgen.backends.native.plan import Call, Family, StepPlan
from onnxgen.backends.native.table_builder import TableBuilder
from onnxgen.backends.native.windows import layer_windows
from onnxgen.graph.cpu.aligned_memory import aligned
from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.paged_attention import PagedAttention, Rotation

_SPLIT_KEYS = 256
_SPLITS_AT_ONCE = 4
"""Sequences of full length whose rows may be split by keys at once; more are attended whole."""
_PARTS_PER_THREAD = 8


class AttentionMemory:
    """Queries, work items and partial sums of a pass.

    Args:
        plan: The plan whose attention calls share the memory.
        most_tokens: Tokens of a pass.
        context: The longest sequence.
        threads: How many work on a step.
        cache_bits: Of each number of keys and values, 16 or 8.
    """

    def __init__(
        self, plan: StepPlan, *, most_tokens: int, context: int, threads: int, cache_bits: int
    ) -> None:
        self._threads, self._most_tokens, self._bits = threads, most_tokens, cache_bits
        kinds = [attention_of(call) for call in plan.calls if call.family is Family.ATTEND]
        splits = -(-context // _SPLIT_KEYS) * _SPLITS_AT_ONCE
        self._most_partials = max((k.heads for k in kinds), default=0) * splits
        self._queries = aligned(max((k.query_bytes(most_tokens) for k in kinds), default=0))
        self._scales = aligned(max((k.query_scale_bytes(most_tokens) for k in kinds), default=0))
        self._partials = aligned(max((k.partials_bytes(self._most_partials) for k in kinds), default=0))
        self._items: dict[tuple[float, ...], np.ndarray] = {}
        self._pages: list[tuple[int, int]] = []
        self._windows = layer_windows(plan, context=context)

    def bind(self, builder: TableBuilder, call: Call) -> None:
        """Append the rows of one call: the work items where a window is new, keys and values, attention."""
        kind = attention_of(call, bits=self._bits)
        items = self._planned(builder, call, kind)
        query, y = call.reads["query"], call.writes["y"]
        cache, parts = call.number("cache"), self._threads * _PARTS_PER_THREAD
        windowed = self._windows[cache] is not None
        shared = {
            "queries": self._queries.ctypes.data, "query_scales": self._scales.ctypes.data, "pages": 0,
            "block_bytes": 0,
        }  # fmt: skip
        row = builder.add(
            kind.write_kernel(), call, lambda shape: min(shape.tokens * kind.kv_heads, parts),
            rows=builder.arena.address(query) - 4 * query.offset, row_bytes=builder.arena.stride(query),
            query_column=query.offset, key_column=call.reads["key"].offset,
            value_column=call.reads["value"].offset,
            query_norm=builder.vector(call, "query_norm"), key_norm=builder.vector(call, "key_norm"),
            epsilon=call.real("epsilon"), cos=builder.vector(call, "cos"), sin=builder.vector(call, "sin"),
            slots_word=int(Header.WINDOW_SLOTS if windowed else Header.SLOTS),
            **shared, **kind.write_constants(),
        )  # fmt: skip
        self._pages.append((row, cache))
        row = builder.add(
            kind.attend_kernel(), call, parts, out=y, out_stride=builder.arena.stride(y),
            sinks=builder.vector(call, "sinks"), items=items.ctypes.data,
            table_word=int(Header.WINDOW_TABLE if windowed else Header.BLOCK_TABLE),
            partials=self._partials.ctypes.data, **shared, **kind.attend_constants(),
        )  # fmt: skip
        self._pages.append((row, cache))

    def use(self, builder: TableBuilder, layers: Sequence[tuple[int, int]]) -> None:
        """Let the rows read and write a cache: addresses of its layers, and bytes from block to block."""
        for row, layer in self._pages:
            address, block_bytes = layers[layer]
            builder.table.set(row, "pages", address)
            builder.table.set(row, "block_bytes", block_bytes)

    def _planned(self, builder: TableBuilder, call: Call, kind: PagedAttention) -> np.ndarray:
        constants = kind.plan_constants()
        key = tuple(constants.values())
        if key not in self._items:
            most = kind.most_items(self._most_tokens, self._most_tokens, self._threads)
            items = self._items[key] = aligned(kind.items_bytes(most))
            builder.add(
                kind.plan_kernel(), call, 1, items=items.ctypes.data, most_items=most,
                most_partials=self._most_partials, workers=self._threads, **constants,
            )  # fmt: skip
        return self._items[key]


def attention_of(call: Call, *, bits: int = 16) -> PagedAttention:
    """The kernels' description of an attention call over a cache of so many bits.

    Raises:
        OptionError: There are no kernels for it.
    """
    head_dim = call.number("head_dim")
    return PagedAttention(
        heads=call.number("heads"),
        kv_heads=call.number("kv_heads"),
        head_dim=head_dim,
        value_dim=head_dim,
        scale=call.real("scale"),
        window=call.number("window") or None,
        softcap=call.real("softcap") or None,
        norm="query_norm" in call.weights,
        rotary_dim=call.number("rotary_dim"),
        bits=bits,
        rotation=Rotation.NEIGHBOURS if call.number("interleaved") else Rotation.HALVES,
    )
