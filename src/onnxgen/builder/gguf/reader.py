"""The GGUF container, versions 2 and 3 (little endian): metadata and the table of tensors.

Nothing in the file is believed before it is checked against the file's size, so a broken or hostile file
costs an error, never memory.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.builder.gguf.ggml_types import GGML_TYPES, GgmlType
from onnxgen.errors import CheckpointError
from onnxgen.foundations.files import check_file

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_MAX_DIMENSIONS = 4
_MAX_ARRAY_DEPTH = 4
# The least that one entry takes: an empty name, then type and value, or dimensions, type and offset.
_MIN_ENTRY_BYTES = 8 + 4 + 1
_MIN_TENSOR_BYTES = 8 + 4 + 4 + 8

_NUMBERS: Mapping[int, str] = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "|b1", 10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One line of the tensor table.

    Attributes:
        name: The name in the file, such as ``blk.0.attn_q.weight``.
        shape: Outermost dimension first (the file has it the other way round).
        type_number: The number of its type, known or not.
        kind: The type, None when its number is not known.
        offset: Where its bytes begin in the file.
    """

    name: str
    shape: tuple[int, ...]
    type_number: int
    kind: GgmlType | None
    offset: int

    @property
    def type_name(self) -> str:
        """The name of the type, ``unknown type N`` when it is not known."""
        return self.kind.name if self.kind else f"unknown type {self.type_number}"


@dataclass(frozen=True, slots=True)
class GgufFile:
    """What a GGUF file says of itself; tensors are read by `read_bytes`.

    Attributes:
        path: The file.
        version: 2 or 3.
        metadata: All keys and values. Strings are `str`, arrays of strings lists, arrays of numbers
            NumPy arrays, numbers and truth values Python's own.
        tensors: The tensor table by name, in the file's order.
    """

    path: Path
    version: int
    metadata: Mapping[str, Any]
    tensors: Mapping[str, GgufTensor]

    def read_bytes(self, tensor: GgufTensor, start: int, count: int) -> npt.NDArray[np.uint8]:
        """Read ``count`` bytes of a tensor, from its byte ``start``.

        Plain reads, not a memory map: pages of a map would count as this process's memory.

        Raises:
            CheckpointError: The file has become shorter since it was opened.
        """
        try:
            data = np.fromfile(self.path, np.uint8, count=count, offset=tensor.offset + start)
        except OSError as cause:
            raise CheckpointError(f"{self.path}: cannot read tensor {tensor.name!r}: {cause}") from cause
        if data.size != count:
            raise CheckpointError(
                f"{self.path}: tensor {tensor.name!r} ends after {start + data.size} bytes, "
                f"expected at least {start + count}; the file was changed while it was read"
            )
        return data


def read_gguf(path: Path) -> GgufFile:
    """Read metadata and tensor table of a GGUF file.

    Raises:
        CheckpointError: The file is missing, empty, not GGUF, of version 1 or big endian, cut off, or
            contradicts itself. The message names file and place.
    """
    check_file(path, error=CheckpointError)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _Parser(path, data).parse()


class _Parser:
    """A cursor over the mapped file; every read checks that the bytes are there."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path = path
        self._data = data
        self._size = len(data)
        self._at = 0

    def parse(self) -> GgufFile:
        version = self._header()
        num_tensors = self._count("tensors", _MIN_TENSOR_BYTES)
        num_entries = self._count("metadata entries", _MIN_ENTRY_BYTES)
        metadata: dict[str, Any] = {}
        for _ in range(num_entries):
            key = self._name("a metadata key")
            if key in metadata:
                raise self._error(f"metadata key {key!r} occurs twice")
            metadata[key] = self._value(self._number("<u4", f"the type of {key!r}"), key, depth=0)
        table = [self._tensor_line() for _ in range(num_tensors)]
        alignment = self._alignment(metadata)
        data_start = -(-self._at // alignment) * alignment
        tensors: dict[str, GgufTensor] = {}
        for name, shape, type_number, offset in table:
            if name in tensors:
                raise self._error(f"tensor {name!r} occurs twice")
            if offset % alignment:
                raise self._error(f"tensor {name!r} begins at {offset}, not a multiple of {alignment}")
            tensor = GgufTensor(name, shape, type_number, GGML_TYPES.get(type_number), data_start + offset)
            self._check_extent(tensor)
            tensors[name] = tensor
        return GgufFile(self._path, version, metadata, tensors)

    def _header(self) -> int:
        magic = self._data[:4]
        if magic != _MAGIC:
            raise self._error(f"not a GGUF file: begins with {magic!r}, expected {_MAGIC!r}")
        self._at = 4
        version = self._number("<u4", "the version")
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        if version not in _VERSIONS and swapped in (*_VERSIONS, 1):
            raise self._error(
                f"a big-endian GGUF file (version {swapped} with its bytes swapped); "
                "use the little-endian file, or convert it on the machine it was made for"
            )
        if version == 1:
            raise self._error("GGUF version 1; versions 2 and 3 can be read, convert the model again")
        if version not in _VERSIONS:
            raise self._error(f"GGUF version {version}; versions 2 and 3 can be read")
        return version

    def _error(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self._path}: {what}")

    def _need(self, count: int, what: str) -> None:
        if count > self._size - self._at:
            raise self._error(
                f"the file ends inside {what}: {count} bytes expected at {self._at}, "
                f"{self._size - self._at} are left of {self._size}; it is cut off or broken, fetch it again"
            )

    def _number(self, dtype: str, what: str) -> Any:
        width = int(dtype[2])
        self._need(width, what)
        code = _STRUCT_CODES[dtype]
        (value,) = struct.unpack_from(code, self._data, self._at)
        self._at += width
        return value

    def _count(self, what: str, least_bytes: int) -> int:
        count = self._number("<u8", f"the number of {what}")
        if count * least_bytes > self._size:
            raise self._error(f"{count} {what} cannot fit a file of {self._size} bytes; it is broken")
        return count

    def _string(self, what: str) -> bytes:
        length = self._number("<u8", f"the length of {what}")
        self._need(length, what)
        start = self._at
        self._at += length
        return self._data[start : self._at]

    def _name(self, what: str) -> str:
        raw = self._string(what)
        try:
            return raw.decode()
        except UnicodeDecodeError as cause:
            raise self._error(f"{what} is not UTF-8: {raw[:40]!r}") from cause

    def _value(self, kind: int, key: str, *, depth: int) -> Any:
        if kind == _STRING:
            return _text(self._string(f"the value of {key!r}"))
        if kind == _ARRAY:
            return self._array(key, depth=depth)
        dtype = _NUMBERS.get(kind)
        if dtype is None:
            raise self._error(f"metadata key {key!r} has the unknown type {kind}")
        return self._number(dtype, f"the value of {key!r}")

    def _array(self, key: str, *, depth: int) -> Any:
        if depth == _MAX_ARRAY_DEPTH:
            raise self._error(f"metadata key {key!r} has arrays nested more than {_MAX_ARRAY_DEPTH} deep")
        kind = self._number("<u4", f"the element type of {key!r}")
        count = self._number("<u8", f"the length of {key!r}")
        dtype = _NUMBERS.get(kind)
        if dtype is not None:
            width = int(dtype[2])
            self._need(count * width, f"the array {key!r}")
            start = self._at
            self._at += count * width
            return np.frombuffer(self._data[start : self._at], np.dtype(dtype))
        if kind == _STRING:
            self._need(count * 8, f"the array {key!r}")
            return self._strings(count, key)
        if kind == _ARRAY:
            self._need(count * 12, f"the array {key!r}")
            return [self._array(key, depth=depth + 1) for _ in range(count)]
        raise self._error(f"metadata key {key!r} is an array of the unknown type {kind}")

    def _strings(self, count: int, key: str) -> list[str]:
        """Vocabularies have hundreds of thousands of strings: this loop decides how fast a file opens."""
        data, at, size = self._data, self._at, self._size
        unpack: Callable[[Any, int], tuple[int]] = struct.Struct("<Q").unpack_from  # type: ignore[assignment]
        strings: list[str] = []
        for _ in range(count):
            if size - at < 8:
                self._at = at
                self._need(8, f"string {len(strings)} of {count} of {key!r}")
            (length,) = unpack(data, at)
            at += 8
            end = at + length
            if end > size:
                self._at = at
                self._need(length, f"string {len(strings)} of {count} of {key!r}")
            strings.append(_text(data[at:end]))
            at = end
        self._at = at
        return strings

    def _tensor_line(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._name("a tensor name")
        dimensions = self._number("<u4", f"the rank of tensor {name!r}")
        if dimensions > _MAX_DIMENSIONS:
            raise self._error(
                f"tensor {name!r} has {dimensions} dimensions, at most {_MAX_DIMENSIONS} can be"
            )
        shape = [self._number("<u8", f"the shape of tensor {name!r}") for _ in range(dimensions)]
        if 0 in shape:
            raise self._error(f"tensor {name!r} has shape {shape[::-1]}, which holds nothing")
        type_number = self._number("<u4", f"the type of tensor {name!r}")
        offset = self._number("<u8", f"the offset of tensor {name!r}")
        return name, tuple(reversed(shape)), type_number, offset

    def _alignment(self, metadata: Mapping[str, Any]) -> int:
        alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
            raise self._error(f"general.alignment is {alignment!r}, must be a power of two")
        return alignment

    def _check_extent(self, tensor: GgufTensor) -> None:
        kind = tensor.kind
        if kind is None:
            return  # its size cannot be known; loading it is refused by name
        columns = tensor.shape[-1] if tensor.shape else 1
        if columns % kind.block_size:
            raise self._error(
                f"tensor {tensor.name!r} has rows of {columns} values, "
                f"not a multiple of the {kind.block_size} that a block of {kind.name} holds"
            )
        end = tensor.offset + prod(tensor.shape) // kind.block_size * kind.block_bytes
        if end > self._size:
            raise self._error(
                f"tensor {tensor.name!r} ({kind.name}, {list(tensor.shape)}) ends at byte {end}, but the file "
                f"has {self._size} bytes; it is cut off or broken, fetch it again"
            )


def _text(raw: bytes) -> str:
    # Some vocabularies hold bytes that are not UTF-8. They stay apart from each other and printable.
    return raw.decode(errors="backslashreplace")


_STRUCT_CODES: Mapping[str, str] = {
    "<u1": "<B", "<i1": "<b", "<u2": "<H", "<i2": "<h", "<u4": "<I", "<i4": "<i", "<f4": "<f", "|b1": "<?",
    "<u8": "<Q", "<i8": "<q", "<f8": "<d",
}  # fmt: skip
