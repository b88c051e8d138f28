"""The external data file of a model: tensors appended one after another, each dropped once written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from onnxgen.foundations.progress import ProgressTask

if TYPE_CHECKING:
    import onnx_ir as ir

_SMALL_ALIGNMENT = 64  # a cache line: kernels read tensors in place
_LARGE_ALIGNMENT = 4096  # a page: large tensors are mapped one by one
_LARGE_BYTES = 1 << 20


class DataFile:
    """An append-only file of tensors. Use it as a context manager.

    The same bytes are written for the same calls; gaps hold zeros and are shorter than a page.

    Attributes:
        written: Tensors by name; of several with one name, the first.
    """

    def __init__(self, path: Path, *, task: ProgressTask) -> None:
        self.path = path
        self._task = task
        self._file = path.open("xb")
        self._offset = 0
        self.written: dict[str, ir.ExternalTensor] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._file.close()

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._offset

    def append(
        self,
        name: str,
        pieces: Iterable[npt.NDArray[Any]],
        *,
        dtype: ir.DataType,
        shape: tuple[int, ...],
    ) -> ir.ExternalTensor:
        """Write a tensor and return its place.

        Args:
            name: Name of the tensor.
            pieces: Consecutive parts of its elements in C order; each is dropped before the next is asked for.
            dtype: Element type that the bytes stand for.
            shape: Shape of the tensor.
        """
        length = (int(np.prod(shape, dtype=np.int64)) * dtype.bitwidth + 7) // 8
        alignment = _LARGE_ALIGNMENT if length >= _LARGE_BYTES else _SMALL_ALIGNMENT
        gap = -self._offset % alignment
        self._file.write(b"\0" * gap)
        start = self._offset + gap
        written = 0
        for piece in pieces:
            view = np.ascontiguousarray(piece)
            self._file.write(view.reshape(-1).view(np.uint8).data)
            written += view.nbytes
            self._task.advance(view.nbytes)
        assert written == length, f"{name}: {written} bytes for shape {shape}, expected {length}"
        self._offset = start + length
        tensor = self.alias(name, start=start, dtype=dtype, shape=shape)
        self.written.setdefault(name, tensor)
        return tensor

    def alias(
        self, name: str, *, start: int, dtype: ir.DataType, shape: tuple[int, ...]
    ) -> ir.ExternalTensor:
        """A tensor over bytes already written, beginning at ``start``."""
        import onnx_ir as ir

        length = (int(np.prod(shape, dtype=np.int64)) * dtype.bitwidth + 7) // 8
        assert start + length <= self._offset
        return ir.ExternalTensor(
            self.path.name,
            start,
            length,
            dtype,
            shape=ir.Shape(shape),
            name=name,
            base_dir=self.path.parent,
        )
