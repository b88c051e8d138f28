"""`Tensor` and `NamedTensors`: arrays as onnxruntime-genai's API hands them around."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.errors import OptionError

_KINDS = "biuf"


class Tensor:
    """An n-dimensional array of numbers or booleans.

    Args:
        array: Anything numpy makes an array of; kept as a contiguous array, copied only if it is not one.
    """

    __slots__ = ("_array",)

    def __init__(self, array: npt.ArrayLike) -> None:
        self._array: npt.NDArray[Any] = np.ascontiguousarray(array)
        if self._array.dtype.kind not in _KINDS:
            raise OptionError(f"a tensor holds numbers or booleans, got {self._array.dtype}")

    def shape(self) -> list[int]:
        """Size of each dimension."""
        return list(self._array.shape)

    def type(self) -> np.dtype[Any]:
        """Element type."""
        return self._array.dtype

    def data(self) -> memoryview:
        """The elements' memory, without a copy."""
        return self._array.data

    def as_numpy(self) -> npt.NDArray[Any]:
        """The array itself, without a copy."""
        return self._array

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self._array, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return self._array.shape[0]

    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape()}, type={self._array.dtype})"


class NamedTensors(MutableMapping[str, Tensor]):
    """Tensors by name. Arrays that are set become tensors."""

    def __init__(self) -> None:
        self._tensors: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __setitem__(self, name: str, value: Tensor | npt.ArrayLike) -> None:
        self._tensors[name] = value if isinstance(value, Tensor) else Tensor(value)

    def __delitem__(self, name: str) -> None:
        del self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._tensors])  # tensors may be deleted on the way

    def __len__(self) -> int:
        return len(self._tensors)
