"""GGUF files byte by byte, so that tests can write ones that no library would."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 = range(13)
_CODES = {
    UINT8: "B", INT8: "b", UINT16: "H", INT16: "h", UINT32: "I", INT32: "i", FLOAT32: "f", BOOL: "?",
    UINT64: "Q", INT64: "q", FLOAT64: "d",
}  # fmt: skip


@dataclass(frozen=True)
class Typed:
    """A value with its GGUF type; of an array, the type of its elements."""

    kind: int
    value: Any


@dataclass(frozen=True)
class RawTensor:
    """Bytes of a tensor. ``shape`` has the outermost dimension first."""

    shape: tuple[int, ...]
    kind: int
    data: bytes = field(repr=False)
    offset: int | None = None


def floats(values: Any) -> RawTensor:
    array = np.asarray(values, np.float32)
    return RawTensor(array.shape, 0, array.tobytes())


def quantized(values: np.ndarray, name: str) -> RawTensor:
    """A tensor quantized by the gguf library."""
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import quantize

    kind = GGMLQuantizationType[name]
    return RawTensor(values.shape, int(kind), quantize(values.astype(np.float32), kind).tobytes())


def write_gguf(
    path: Path,
    metadata: Mapping[str, Any] | Sequence[tuple[str, Any]],
    tensors: Mapping[str, RawTensor] | Sequence[tuple[str, RawTensor]] = (),
    *,
    version: int = 3,
    order: str = "<",
    alignment: int = 32,
) -> Path:
    """Write a file; plain Python values get the type that converters give them."""
    entries = list(metadata.items() if isinstance(metadata, Mapping) else metadata)
    lines = list(tensors.items() if isinstance(tensors, Mapping) else tensors)
    head = b"GGUF" + struct.pack(f"{order}IQQ", version, len(lines), len(entries))
    for key, value in entries:
        kind, body = _value(value, order)
        head += _string(key, order) + struct.pack(f"{order}I", kind) + body
    data = bytearray()
    for name, tensor in lines:
        data += bytes(-len(data) % alignment)
        offset = len(data) if tensor.offset is None else tensor.offset
        dims = struct.pack(f"{order}I{len(tensor.shape)}Q", len(tensor.shape), *reversed(tensor.shape))
        head += _string(name, order) + dims + struct.pack(f"{order}IQ", tensor.kind, offset)
        data += tensor.data
    path.write_bytes(head + (bytes(-len(head) % alignment) + data if lines else b""))
    return path


def _string(text: str | bytes, order: str) -> bytes:
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack(f"{order}Q", len(raw)) + raw


def _value(value: Any, order: str) -> tuple[int, bytes]:
    if isinstance(value, Typed):
        if isinstance(value.value, list):
            return ARRAY, _array(value.kind, value.value, order)
        return value.kind, _element(value.kind, value.value, order)
    if isinstance(value, bool):
        return BOOL, struct.pack("?", value)
    if isinstance(value, int):
        return UINT32, struct.pack(f"{order}I", value)
    if isinstance(value, float):
        return FLOAT32, struct.pack(f"{order}f", value)
    if isinstance(value, str | bytes):
        return STRING, _string(value, order)
    if isinstance(value, list):
        kind = _value(value[0], order)[0]
        return ARRAY, _array(kind, value, order)
    raise TypeError(value)


def _array(kind: int, values: list[Any], order: str) -> bytes:
    return struct.pack(f"{order}IQ", kind, len(values)) + b"".join(
        _element(kind, value, order) for value in values
    )


def _element(kind: int, value: Any, order: str) -> bytes:
    if kind == STRING:
        return _string(value, order)
    if kind == ARRAY:
        return _value(value, order)[1]
    return struct.pack(order + _CODES[kind], value)


def tiny_decoder(
    architecture: str,
    rng: np.random.Generator,
    *,
    hidden: int = 64,
    heads: int = 4,
    kv_heads: int = 2,
    intermediate: int = 96,
    vocab: int = 50,
    layers: int = 1,
) -> tuple[dict[str, Any], dict[str, RawTensor]]:
    """Metadata and random float32 tensors of a small decoder, as llama.cpp's converters write them."""
    head_dim = hidden // heads
    a = architecture
    metadata: dict[str, Any] = {
        "general.architecture": a,
        f"{a}.context_length": 128,
        f"{a}.embedding_length": hidden,
        f"{a}.block_count": layers,
        f"{a}.feed_forward_length": intermediate,
        f"{a}.attention.head_count": heads,
        f"{a}.attention.head_count_kv": kv_heads,
        f"{a}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{a}.rope.freq_base": 10000.0,
        "tokenizer.ggml.eos_token_id": 2,
    }
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (vocab, hidden),
        "output_norm.weight": (hidden,),
    }
    kv = kv_heads * head_dim
    for layer in range(layers):
        block = f"blk.{layer}."
        shapes |= {f"{block}attn_norm.weight": (hidden,), f"{block}ffn_norm.weight": (hidden,)}
        shapes |= {
            f"{block}attn_output.weight": (hidden, hidden),
            f"{block}ffn_down.weight": (hidden, intermediate),
        }
        if a == "phi3":
            shapes |= {f"{block}attn_qkv.weight": (hidden + 2 * kv, hidden)}
            shapes |= {f"{block}ffn_up.weight": (2 * intermediate, hidden)}
            continue
        shapes |= {f"{block}attn_q.weight": (hidden, hidden), f"{block}attn_k.weight": (kv, hidden)}
        shapes |= {f"{block}attn_v.weight": (kv, hidden), f"{block}ffn_up.weight": (intermediate, hidden)}
        shapes |= {f"{block}ffn_gate.weight": (intermediate, hidden)}
        if a == "qwen2":
            shapes |= {
                f"{block}attn_q.bias": (hidden,),
                f"{block}attn_k.bias": (kv,),
                f"{block}attn_v.bias": (kv,),
            }
        if a in ("qwen3", "gemma3"):
            shapes |= {f"{block}attn_q_norm.weight": (head_dim,), f"{block}attn_k_norm.weight": (head_dim,)}
        if a == "gemma3":
            shapes |= {
                f"{block}post_attention_norm.weight": (hidden,),
                f"{block}post_ffw_norm.weight": (hidden,),
            }
    if a == "gemma3":
        metadata[f"{a}.attention.sliding_window"] = 16
    assert all(prod(shape) for shape in shapes.values())
    return metadata, {name: floats(rng.standard_normal(shape)) for name, shape in shapes.items()}
