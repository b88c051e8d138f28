"""`SharedData`: the data file of a second graph that shares some tensors with the first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from onnxgen.builder.data_file import DataFile

if TYPE_CHECKING:
    import onnx_ir as ir


class SharedData:
    """Appends to a data file, but for tensors that are in it already, which are named again.

    Args:
        data: The file.
        shared: Beginnings of the names of tensors that are the same in both graphs.
    """

    def __init__(self, data: DataFile, shared: tuple[str, ...]) -> None:
        self._data, self._shared = data, shared

    def append(
        self,
        name: str,
        pieces: Iterable[npt.NDArray[Any]],
        *,
        dtype: ir.DataType,
        shape: tuple[int, ...],
    ) -> ir.ExternalTensor:
        """As `DataFile.append`; what is shared must have been written with that type and shape."""
        known = self._data.written.get(name) if name.startswith(self._shared) else None
        if known is None:
            return self._data.append(name, pieces, dtype=dtype, shape=shape)
        assert known.offset is not None
        return self._data.alias(name, start=known.offset, dtype=dtype, shape=shape)

    def alias(
        self, name: str, *, start: int, dtype: ir.DataType, shape: tuple[int, ...]
    ) -> ir.ExternalTensor:
        """As `DataFile.alias`."""
        return self._data.alias(name, start=start, dtype=dtype, shape=shape)
