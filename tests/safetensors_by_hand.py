"""Write safetensors files with numpy alone, so that test checkpoints depend on no library that reads them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

STORED = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


def to_stored(array: np.ndarray, dtype: str) -> np.ndarray:
    """Round float32 to ``dtype``; bfloat16 comes back as its bits in uint16 (round to nearest even)."""
    if dtype == "float32":
        return np.ascontiguousarray(array, np.float32)
    if dtype == "float16":
        return array.astype(np.float16)
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_stored(array: np.ndarray) -> np.ndarray:
    """The float32 values of what `to_stored` returned."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


def write_safetensors(path: Path, tensors: Mapping[str, np.ndarray], dtype: str) -> int:
    """Write ``tensors`` (float32) stored as ``dtype`` and return the number of tensor bytes."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    blobs: list[bytes] = []
    offset = 0
    for name, array in tensors.items():
        blob = to_stored(array, dtype).tobytes()
        header[name] = {
            "dtype": STORED[dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    return offset


def write_sharded(folder: Path, tensors: Mapping[str, np.ndarray], dtype: str, shards: int) -> None:
    """Write ``model.safetensors``, or several shards and their index, tensors dealt round robin."""
    if shards == 1:
        write_safetensors(folder / "model.safetensors", tensors, dtype)
        return
    weight_map: dict[str, str] = {}
    total = 0
    names = list(tensors)
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        mine = names[shard::shards]
        total += write_safetensors(folder / file, {name: tensors[name] for name in mine}, dtype)
        weight_map |= dict.fromkeys(mine, file)
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
