"""PagedAttention of ``com.microsoft``: packed tokens of many sequences over a cache of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.graph.cpu.flash import Paging, Scoring, flash_attend
from onnxgen.graph.cpu.half_conversion import converted
from onnxgen.graph.cpu.head_rows import FLOAT_TYPES, Angles, Move, move_heads
from onnxgen.graph.cpu.indexing import checked_indices, copy_into
from onnxgen.graph.cpu.paged_call import INPUTS, PagedCall
from onnxgen.graph.cpu.paged_steps import attend_in_steps
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_CACHES = ("key_cache", "value_cache")


def _unknown_cache(node: NodeSpec) -> str | None:
    for name in ("k_cache_dtype", "v_cache_dtype"):
        if node.attr(name, "") == "float4e2m1":
            return f"{name} 'float4e2m1' is not done here"
    return None


@TABLE.operator("PagedAttention", 1, domain=MICROSOFT, why_not=_unknown_cache)
def paged_attention(node: NodeSpec) -> Kernel:
    """Writes new keys and values into their blocks, then attends to all that a sequence's block table names.

    Caches ``[blocks, block_size, kv_heads, head_dim]`` are outputs that may be the inputs' own memory.
    """
    latent = node.attr("kv_cache_layout", "SEPARATE") == "LATENT"

    def called(inputs: tuple[Any, ...]) -> PagedCall:
        return PagedCall(
            node, dict(zip(INPUTS, (*inputs, *(None,) * (len(INPUTS) - len(inputs))), strict=True))
        )

    def run(*inputs: np.ndarray | None) -> Any:
        call = called(inputs)
        caches = [call.given[name].copy() for name in _CACHES[: 1 if latent else 2]]
        output = np.empty((len(call.query), call.heads * call.value_dim), call.query.dtype)
        _compute(call, output, *caches)
        results = (output, *caches)
        return results[: len(node.outputs)] if len(node.outputs) > 1 else output

    def into(*arrays: Any) -> None:
        count = len(node.outputs)
        call, (output, *caches) = called(arrays[:-count]), arrays[-count:]
        for name, cache in zip(_CACHES, caches, strict=False):
            copy_into(cache, call.given[name])
        _compute(call, output, *caches)

    writes_caches = len(node.outputs) == (2 if latent else 3)
    return Kernel(run, into if writes_caches else None, in_place=((1, 3), (2, 4))[: len(node.outputs) - 1])


def _compute(
    call: PagedCall, output: np.ndarray, key_cache: np.ndarray, value_cache: np.ndarray | None = None
) -> None:
    """Fill the caches and the output ``[tokens, heads * v_head_dim]``."""
    if not _fits_blocks(call, value_cache):
        output[...] = attend_in_steps(call, key_cache, value_cache).reshape(output.shape)
        return
    key_scale = call.codec("k").scales(call.kv_heads, call.key.shape[2])
    value_scale = None if key_scale is None else np.ascontiguousarray(key_scale[:, : call.value_dim])
    keys = key_cache.reshape(1, -1, *key_cache.shape[2:])  # [1, rows of all blocks, kv_heads, head_dim]
    values = keys[..., : call.value_dim]
    if value_cache is not None and call.value is not None:
        value_scale = call.codec("v").scales(call.kv_heads, call.value.shape[2])
        values = value_cache.reshape(1, -1, *value_cache.shape[2:])
    query = _append(call, keys, key_scale, None if value_cache is None else values, value_scale)
    table = np.ascontiguousarray(call.table, np.int32)
    held = table.shape[1] * call.block_size  # of a longer sequence only what its blocks hold is seen
    totals = [min(past + new, held) for past, new in zip(call.pasts, call.news, strict=True)]
    used = np.arange(table.shape[1]) * call.block_size < np.array(totals)[:, None]
    checked_indices(call.node, np.maximum(table[used], 0), len(key_cache))
    direct = output.dtype == np.float32
    wide = output if direct else np.empty(output.shape, np.float32)
    flash_attend(
        query[None],
        keys.swapaxes(1, 2),
        values.swapaxes(1, 2),
        wide.reshape(1, len(query), call.heads, -1),
        Scoring(
            scale=call.scale,
            softcap=call.node.attr("softcap", 0.0),
            left=None if call.window is None else call.window - 1,
            right=0 if call.causal else None,
            sink=call.sink(),
            key_scale=key_scale,
            value_scale=value_scale,
        ),
        num_keys=totals,
        first_positions=call.pasts,
        num_queries=call.news,
        first_queries=call.bounds[:-1],
        paging=Paging(table, call.block_size),
    )
    if not direct:
        converted(wide, output.dtype, output)


def _fits_blocks(call: PagedCall, value_cache: np.ndarray | None) -> bool:
    """Whether compiled blocks read and write all of it."""
    tables = call.rotary_tables() or ()
    codecs = [call.codec("k")] if value_cache is None else [call.codec("k"), call.codec("v")]
    # Half of a byte of a key is no value: latent caches of 4 bits have no columns that could be cut off.
    whole = value_cache is not None or codecs[0].bits != 4
    floats = (call.query, call.key, *tables, *(() if call.value is None else (call.value,)))
    return whole and all(x.dtype in FLOAT_TYPES for x in floats) and all(c.is_compiled for c in codecs)


def _append(
    call: PagedCall,
    keys: np.ndarray,
    key_scale: np.ndarray | None,
    values: np.ndarray | None,
    value_scale: np.ndarray | None,
) -> np.ndarray:
    """Write the new rows of the caches; return the queries that attend, ``[tokens, heads, head_dim]`` float32."""
    angles, tables = None, call.rotary_tables()
    if tables is not None:
        cos, sin = map(np.ascontiguousarray, tables)
        angles = Angles(cos, sin, call.positions[None], call.rotary_interleaved, call.rotary_offset)
    query, places = np.empty(call.query.shape, np.float32), call.slots()[None]
    moves = [
        Move(
            _rows(call.query)[None],
            query[None],
            weight=call.norm_weight("q_norm"),
            epsilon=call.norm_epsilon,
            angles=angles,
        ),
        Move(
            _rows(call.key)[None],
            keys,
            places,
            weight=call.norm_weight("k_norm"),
            epsilon=call.norm_epsilon,
            angles=angles,
            scale=key_scale,
        ),
    ]
    if values is not None and call.value is not None:
        moves.append(Move(_rows(call.value)[None], values, places, scale=value_scale))
    move_heads(*moves)
    return query


def _rows(x: np.ndarray) -> np.ndarray:
    return x if x.strides[-1] == x.itemsize else np.ascontiguousarray(x)
