"""PagedAttention step by step, in float32, for caches that compiled blocks do not read (8-bit floats)."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.attention import attend, causal_bias
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import checked_indices
from onnxgen.graph.cpu.kv_quantization import CacheCodec
from onnxgen.graph.cpu.normalization import rms_normalized
from onnxgen.graph.cpu.paged_call import PagedCall, slots_of
from onnxgen.graph.cpu.rotary import rotated


def attend_in_steps(call: PagedCall, key_cache: np.ndarray, value_cache: np.ndarray | None) -> np.ndarray:
    """Fill the caches; return the output ``[tokens, heads, v_head_dim]`` float32."""
    query = _rotated(call, _normed(call, widened(call.query), "q_norm"))
    key = _rotated(call, _normed(call, widened(call.key), "k_norm"))
    codecs, slots = [call.codec("k")], call.slots()
    _write(key_cache, key, codecs[0], slots)
    if value_cache is not None and call.value is not None:
        codecs.append(call.codec("v"))
        _write(value_cache, widened(call.value), codecs[1], slots)
    output = np.zeros((len(query), call.heads, call.value_dim), np.float32)
    for index, past in enumerate(call.pasts):
        span = slice(call.bounds[index], call.bounds[index + 1])
        seen = np.arange(min(past + span.stop - span.start, call.table.shape[1] * call.block_size))
        places = slots_of(call.table[[index]], seen, call.block_size)
        seen, places = seen[places >= 0], places[places >= 0]
        keys = _read(call, key_cache, codecs[0], places)
        values = (
            keys[..., : call.value_dim]
            if value_cache is None
            else _read(call, value_cache, codecs[-1], places)
        )
        output[span] = _attended(call, query[span], keys, values, call.positions[span], seen)
    return output


def _attended(
    call: PagedCall,
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    positions: np.ndarray,
    seen: np.ndarray,
) -> np.ndarray:
    """Of one sequence: query ``[seq, heads, head_dim]``, keys and values ``[kv_heads, keys, dim]``."""
    if call.causal:
        bias = causal_bias(positions, seen, window=call.window)
    else:
        near = np.ones((1, 1), bool) if call.window is None else positions[:, None] - seen < call.window
        bias = np.where(near, np.float32(0), np.float32(-np.inf))
    found = attend(
        query.swapaxes(0, 1),
        keys,
        values,
        scale=call.scale,
        bias=bias,
        softcap=call.node.attr("softcap", 0.0),
        sink=call.sink(),
    )
    return found.output.swapaxes(0, 1)


def _normed(call: PagedCall, x: np.ndarray, name: str) -> np.ndarray:
    weight = call.norm_weight(name)
    return x if weight is None else rms_normalized(x, call.norm_epsilon) * weight


def _rotated(call: PagedCall, x: np.ndarray) -> np.ndarray:
    tables = call.rotary_tables()
    if tables is None:
        return x
    cos, sin = (widened(table)[call.positions][:, None] for table in tables)
    y, offset = x.copy(), call.rotary_offset
    y[..., offset:] = rotated(x[..., offset:], cos, sin, interleaved=call.rotary_interleaved)
    return y


def _write(cache: np.ndarray, new: np.ndarray, codec: CacheCodec, slots: np.ndarray) -> None:
    kept = np.flatnonzero(slots >= 0)
    flat = cache.reshape(-1, *cache.shape[2:])
    flat[slots[kept]] = codec.encode(new[kept].swapaxes(0, 1)).swapaxes(0, 1)


def _read(call: PagedCall, cache: np.ndarray, codec: CacheCodec, slots: np.ndarray) -> np.ndarray:
    """``[kv_heads, keys, head_dim]`` float32."""
    flat = cache.reshape(-1, *cache.shape[2:])
    return codec.decode(flat[checked_indices(call.node, slots, len(flat))].swapaxes(0, 1))
