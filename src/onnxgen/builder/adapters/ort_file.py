"""Adapter files of ONNX Runtime (``.onnx_adapter``): values of graph inputs by name, in a FlatBuffer.

    table Adapter   { format_version, adapter_version, model_version: int32; parameters: [Parameter]; }
    table Parameter { name: string; dims: [int64]; data_type: int32 (as in ONNX); raw_data: [uint8]; }

Tables are written as FlatBuffers' documentation of its binary format says; every place is checked before it is read.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from onnxgen.backends.adapters import Adapter
from onnxgen.errors import CheckpointError
from onnxgen.foundations.files import check_file

_IDENTIFIER = b"TORT"
_FORMAT_VERSION = 1
_DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<f4"),
    10: np.dtype("<f2"),
    11: np.dtype("<f8"),
    16: np.dtype(ml_dtypes.bfloat16),
}
_MAX_BYTES = 8 << 30
_MAX_DIMS = 8


def read_ort_adapter(file: Path, name: str) -> Adapter:
    """Read an adapter file.

    Raises:
        CheckpointError: It is missing, broken or of another kind.
    """
    check_file(file, error=CheckpointError)
    if file.stat().st_size > _MAX_BYTES:
        raise CheckpointError(f"{file} has {file.stat().st_size} bytes; an adapter has at most {_MAX_BYTES}")
    content = file.read_bytes()
    if content[4:8] != _IDENTIFIER:
        raise CheckpointError(
            f"{file} is no adapter file of ONNX Runtime: it does not say {_IDENTIFIER.decode()} at byte 4"
        )
    try:
        inputs = dict(_parameters(_Buffer(content), file))
    except (struct.error, ValueError, UnicodeDecodeError) as cause:
        raise CheckpointError(f"{file} is broken or was cut short: {cause}") from cause
    if not inputs:
        raise CheckpointError(f"{file} holds no parameters")
    return Adapter(name, source=str(file), digest=hashlib.sha256(content).hexdigest(), inputs=inputs)


def _parameters(buffer: _Buffer, file: Path) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    root = buffer.table(buffer.follow(0))
    version = root.int32(0)
    if version != _FORMAT_VERSION:
        raise CheckpointError(f"{file} has format version {version}; version {_FORMAT_VERSION} can be read")
    seen: set[str] = set()
    left = file.stat().st_size
    for at in root.offsets(3):
        table = buffer.table(at)
        name = table.data(0, 1).decode()
        if not name or name in seen:
            raise CheckpointError(f"{file} has a parameter {name!r} twice" if name else f"{file}: no name")
        seen.add(name)
        dtype = _DTYPES.get(table.int32(2))
        if dtype is None:
            raise CheckpointError(f"{file}: {name!r} has element type {table.int32(2)}, which is no float")
        dims = np.frombuffer(table.data(1, 8), "<i8").tolist()
        raw = table.data(3, 1)
        if len(dims) > _MAX_DIMS or min(dims, default=0) < 0 or math.prod(dims) * dtype.itemsize != len(raw):
            raise CheckpointError(f"{file}: {name!r} has {len(raw)} bytes for {dims} of {dtype}")
        left -= len(raw)
        if left < 0:
            raise CheckpointError(f"{file} is broken: its parameters share their bytes")
        values = np.frombuffer(raw, dtype).reshape(dims)
        if not np.isfinite(values).all():
            raise CheckpointError(f"{file}: {name!r} holds NaN or infinity")
        yield name, values


@dataclass(frozen=True, slots=True)
class _Table:
    buffer: _Buffer
    at: int

    def field(self, index: int) -> int | None:
        """Where a field is; None if it has its default."""
        vtable = self.at - self.buffer.number("<i", self.at)
        size = self.buffer.number("<H", vtable)
        entry = 4 + 2 * index
        offset = self.buffer.number("<H", vtable + entry) if entry + 2 <= size else 0
        return self.at + offset if offset else None

    def int32(self, index: int) -> int:
        at = self.field(index)
        return 0 if at is None else self.buffer.number("<i", at)

    def data(self, index: int, item_bytes: int) -> bytes:
        """The items of a vector or string."""
        at = self.field(index)
        if at is None:
            return b""
        start = self.buffer.follow(at)
        return self.buffer.bytes(start + 4, self.buffer.number("<I", start) * item_bytes)

    def offsets(self, index: int) -> Iterator[int]:
        """Where the tables of a vector are."""
        at = self.field(index)
        if at is None:
            return
        start = self.buffer.follow(at)
        count = self.buffer.number("<I", start)
        self.buffer.bytes(start + 4, 4 * count)
        for i in range(count):
            yield self.buffer.follow(start + 4 + 4 * i)


class _Buffer:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def number(self, kind: str, at: int) -> int:
        if at < 0:
            raise ValueError(f"an offset points {-at} bytes before the file")
        return int(struct.unpack_from(kind, self._content, at)[0])

    def follow(self, at: int) -> int:
        return at + self.number("<I", at)

    def bytes(self, at: int, count: int) -> bytes:
        if at < 0 or at + count > len(self._content):
            raise ValueError(f"{count} bytes at {at} of {len(self._content)} are needed")
        return self._content[at : at + count]

    def table(self, at: int) -> _Table:
        return _Table(self, at)
