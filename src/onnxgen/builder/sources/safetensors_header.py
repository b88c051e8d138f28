"""Headers of safetensors files: which tensor lies where.

The `safetensors` library checks each header; this module adds the byte ranges, which it does not tell,
and errors that say which file is broken and by how much.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from onnxgen.errors import CheckpointError
from onnxgen.foundations.files import check_file

_LENGTH_BYTES = 8
# The format's own limit, which the library enforces too.
_MAX_HEADER_BYTES = 100_000_000


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where a tensor is.

    Attributes:
        file: The shard.
        dtype: safetensors' name of the type, such as ``BF16``.
        shape: Outermost dimension first.
        offset: Where its bytes begin in the file.
        num_bytes: How many they are.
    """

    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int
    num_bytes: int


def read_header(file: Path) -> dict[str, StoredTensor]:
    """Read the header of a shard.

    Raises:
        CheckpointError: The file is missing, empty, a pointer, cut off or not safetensors.
    """
    check_file(file, error=CheckpointError)
    header, data_start = _json_header(file)
    tensors: dict[str, StoredTensor] = {}
    data_bytes = 0
    try:
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            start, end = entry["data_offsets"]
            data_bytes = max(data_bytes, end)
            tensors[name] = StoredTensor(
                file, str(entry["dtype"]), tuple(entry["shape"]), data_start + start, end - start
            )
    except (TypeError, KeyError, ValueError) as cause:
        raise CheckpointError(f"{file}: the safetensors header is broken: {cause!r}") from cause
    size = file.stat().st_size
    if size < data_start + data_bytes:
        raise CheckpointError(
            f"{file} has {size} bytes, its header says {data_start + data_bytes}; "
            "it is cut off, fetch it again"
        )
    try:
        with safe_open(str(file), framework="np"):
            pass
    except (SafetensorError, OSError) as cause:
        raise CheckpointError(f"{file} is not a valid safetensors file: {cause}") from cause
    return tensors


def _json_header(file: Path) -> tuple[dict[str, Any], int]:
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        if _LENGTH_BYTES + length > size:
            raise CheckpointError(
                f"{file} has {size} bytes, its header alone should take {_LENGTH_BYTES + length}; "
                "it is cut off or no safetensors file"
            )
        if length > _MAX_HEADER_BYTES:
            raise CheckpointError(
                f"{file} has no safetensors header: it would take {length} bytes, at most {_MAX_HEADER_BYTES} may be"
            )
        raw = stream.read(length)
    try:
        header = json.loads(raw)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as cause:
        raise CheckpointError(f"{file} has no safetensors header: {cause}") from cause
    if not isinstance(header, dict):
        raise CheckpointError(f"{file} has no safetensors header: {raw[:40]!r}")
    return header, _LENGTH_BYTES + length
