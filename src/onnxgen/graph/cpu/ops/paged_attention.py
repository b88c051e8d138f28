"""PagedAttention of ``com.microsoft``: packed tokens of many sequences over a cache of blocks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.attention import attend, causal_bias
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import checked_bounds, checked_indices, copy_into, integers
from onnxgen.graph.cpu.kv_quantization import CacheCodec
from onnxgen.graph.cpu.normalization import rms_normalized
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.rotary import rotated
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_INPUTS = (
    *("query", "key", "value", "key_cache", "value_cache", "offsets", "past", "block_table", "cos", "sin"),
    *("slot_mapping", "head_sink", "q_norm", "k_norm", "k_scale", "v_scale", "metadata"),
)


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

    def named(inputs: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(_INPUTS, (*inputs, *(None,) * (len(_INPUTS) - len(inputs))), strict=True))

    def run(*inputs: np.ndarray | None) -> Any:
        given = named(inputs)
        caches = [given[name].copy() for name in _CACHES[: 1 if latent else 2]]
        results = (_computed(node, given, *caches), *caches)
        return results[: len(node.outputs)] if len(node.outputs) > 1 else results[0]

    def into(*arrays: Any) -> None:
        count = len(node.outputs)
        given, (output, *caches) = named(arrays[:-count]), arrays[-count:]
        for name, cache in zip(_CACHES, caches, strict=False):
            copy_into(cache, given[name])
        output[...] = _computed(node, given, *caches)

    writes_caches = len(node.outputs) == (2 if latent else 3)
    return Kernel(run, into if writes_caches else None, in_place=((1, 3), (2, 4))[: len(node.outputs) - 1])


_CACHES = ("key_cache", "value_cache")


def _computed(
    node: NodeSpec, given: dict[str, Any], key_cache: np.ndarray, value_cache: np.ndarray | None = None
) -> np.ndarray:
    """Fill the caches; return the output ``[tokens, heads * v_head_dim]``."""
    query, key, value = _projections(node, given)
    bounds, pasts = checked_bounds(node, given["offsets"], len(query)), integers(given["past"])
    block_size, table = key_cache.shape[1], given["block_table"]
    if len(bounds) != len(pasts) + 1 or min(pasts, default=0) < 0 or len(table) != len(pasts):
        raise KernelError(
            f"{node}: offsets {bounds}, past lengths {pasts} and block tables {table.shape} do not fit"
        )
    positions = np.concatenate(
        [past + np.arange(b - a) for past, a, b in zip(pasts, bounds, bounds[1:], strict=False)]
    )
    query = _rotated(node, given, _normed(node, given, query, "q_norm"), positions)
    key = _rotated(node, given, _normed(node, given, key, "k_norm"), positions)
    codecs = [_codec(node, given, "k", key_cache)]
    stores = [(key_cache, key, codecs[0])]
    if value_cache is not None and value is not None:
        codecs.append(_codec(node, given, "v", value_cache))
        stores.append((value_cache, value, codecs[1]))
    slots = given["slot_mapping"]
    if slots is None:
        rows = np.repeat(np.arange(len(pasts)), np.diff(bounds))
        slots = _slots(table[rows], positions, block_size)
    for cache, new, codec in stores:
        _write(node, cache, new, codec, slots)
    width = node.attr("v_head_size", 0) or (key if value is None else value).shape[2]
    output = np.zeros((len(query), query.shape[1], width), np.float32)
    for index, past in enumerate(pasts):
        span = slice(bounds[index], bounds[index + 1])
        seen = np.arange(min(past + span.stop - span.start, table.shape[1] * block_size))
        places = _slots(table[[index]], seen, block_size)
        seen, places = seen[places >= 0], places[places >= 0]
        keys = _read(node, key_cache, codecs[0], places)
        values = keys[..., :width] if value_cache is None else _read(node, value_cache, codecs[-1], places)
        output[span] = _attended(node, given, query[span], keys, values, positions[span], seen)
    return output.reshape(len(query), -1).astype(given["query"].dtype)


def _attended(
    node: NodeSpec,
    given: dict[str, Any],
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    positions: np.ndarray,
    seen: np.ndarray,
) -> np.ndarray:
    """Of one sequence: query ``[seq, heads, head_dim]``, keys and values ``[kv_heads, keys, dim]``."""
    window = node.attr("local_window_size", -1)
    if node.attr("is_causal", 1):
        bias = causal_bias(positions, seen, window=window if window >= 0 else None)
    else:
        near = positions[:, None] - seen < window if window >= 0 else np.ones((1, 1), bool)
        bias = np.where(near, np.float32(0), np.float32(-np.inf))
    sink = given["head_sink"]
    found = attend(
        query.swapaxes(0, 1),
        keys,
        values,
        scale=node.attr("scale", 0.0) or query.shape[2] ** -0.5,
        bias=bias,
        softcap=node.attr("softcap", 0.0),
        sink=None if sink is None else widened(sink),
    )
    return found.output.swapaxes(0, 1)


def _projections(node: NodeSpec, given: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    heads, kv_heads = node.attr("num_heads"), node.attr("kv_num_heads")
    query, key, value = given["query"], given["key"], given["value"]
    if key is None:
        width = query.shape[1] // (heads + 2 * kv_heads)
        query, key, value = np.split(query, [heads * width, (heads + kv_heads) * width], axis=1)
    if query.shape[1] % heads or key.shape[1] % kv_heads or heads % kv_heads:
        raise KernelError(
            f"{node}: query {query.shape} and key {key.shape} do not fit {heads} and {kv_heads} heads"
        )
    q, k = (widened(x).reshape(len(x), count, -1) for x, count in ((query, heads), (key, kv_heads)))
    return q, k, None if value is None else widened(value).reshape(len(value), kv_heads, -1)


def _normed(node: NodeSpec, given: dict[str, Any], x: np.ndarray, name: str) -> np.ndarray:
    weight = given[name]
    return x if weight is None else rms_normalized(x, node.attr("qk_norm_epsilon", 1e-6)) * widened(weight)


def _rotated(node: NodeSpec, given: dict[str, Any], x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    if not node.attr("do_rotary", 0):
        return x
    if given["cos"] is None or given["sin"] is None:
        raise KernelError(f"{node}: do_rotary needs cos_cache and sin_cache")
    places, offset = checked_indices(node, positions, len(given["cos"])), node.attr("rotary_offset", 0)
    cos, sin = (widened(given[name])[places][:, None] for name in ("cos", "sin"))
    y = x.copy()
    y[..., offset:] = rotated(x[..., offset:], cos, sin, interleaved=bool(node.attr("rotary_interleaved", 0)))
    return y


def _codec(node: NodeSpec, given: dict[str, Any], part: str, cache: np.ndarray) -> CacheCodec:
    scale = given[f"{part}_scale"]
    if node.attr(f"{part}_quant_type", "NONE") == "NONE":
        return CacheCodec(cache.dtype, None, None)
    if scale is None:
        raise KernelError(f"{node}: a quantized cache needs the input {part}_scale")
    is_float = cache.dtype == np.dtype(ml_dtypes.float8_e4m3fn)
    bits = None if is_float else 4 if node.attr(f"{part}_cache_dtype", "") == "int4" else 8
    return CacheCodec(cache.dtype, bits, scale.reshape(() if scale.size == 1 else scale.shape[-3:]))


def _slots(tables: np.ndarray, positions: np.ndarray, block_size: int) -> np.ndarray:
    """The flat slot of each position in its row of block ids, or in the only one; -1 where the page is not mapped."""
    pages = positions // block_size
    mapped = pages < tables.shape[1]
    rows = np.arange(len(tables)) if len(tables) == len(pages) else 0
    blocks = np.where(mapped, tables[rows, np.where(mapped, pages, 0)], -1)
    return np.where(blocks < 0, -1, blocks * block_size + positions % block_size)


def _write(node: NodeSpec, cache: np.ndarray, new: np.ndarray, codec: CacheCodec, slots: np.ndarray) -> None:
    kept = np.flatnonzero(slots >= 0)
    flat = cache.reshape(-1, *cache.shape[2:])
    stored = codec.encode(new[kept].swapaxes(0, 1)).swapaxes(0, 1)
    flat[checked_indices(node, slots[kept], len(flat))] = stored


def _read(node: NodeSpec, cache: np.ndarray, codec: CacheCodec, slots: np.ndarray) -> np.ndarray:
    """``[kv_heads, keys, head_dim]`` float32."""
    flat = cache.reshape(-1, *cache.shape[2:])
    return codec.decode(flat[checked_indices(node, slots, len(flat))].swapaxes(0, 1))
