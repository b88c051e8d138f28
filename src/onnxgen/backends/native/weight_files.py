"""The bytes of weights: read into memory of ours, or seen through a map where single rows are looked up.

What is packed is read and not mapped: pages of a map would count as memory of the process beside what is made of them.
"""

from __future__ import annotations

import math
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from onnxgen.backends.native.plan import Stored
from onnxgen.errors import ModelFileError
from onnxgen.foundations.files import check_file, confined
from onnxgen.graph.cpu.aligned_memory import aligned


class WeightFiles:
    """Files of one model's weights.

    Args:
        folder: The model's folder, which its files do not leave.
        origin: What messages call the model.
    """

    def __init__(self, folder: Path, origin: str) -> None:
        self._folder, self._origin = folder, origin
        self._open: dict[str, Any] = {}
        self._mapped: dict[str, np.ndarray] = {}

    def read(self, stored: Stored) -> np.ndarray:
        """The elements, in memory of their own.

        Raises:
            ModelFileError: The file is missing, outside of the folder or too short.
        """
        if stored.file is None:
            return np.frombuffer(stored.inline, dtype_of(stored)).reshape(stored.shape)
        # Pages of its own, which go back to the system with the array: the allocator would keep them.
        content = aligned(num_bytes(stored))
        file = self._file(stored.file)
        view, done = memoryview(content.data), 0
        while done < len(view):
            if hasattr(os, "preadv"):
                count = os.preadv(file.fileno(), [view[done:]], stored.offset + done)
            else:
                file.seek(stored.offset + done)
                count = file.readinto(view[done:])
            if not count:
                raise self._too_short(stored)
            done += count
        return content.view(dtype_of(stored)).reshape(stored.shape)

    def mapped(self, stored: Stored) -> np.ndarray:
        """The elements where the file is mapped; read where they are not aligned, or in no file.

        Raises:
            ModelFileError: The file is missing, outside of the folder or too short.
        """
        if stored.file is None or stored.offset % dtype_of(stored).itemsize:
            return self.read(stored)
        if stored.file not in self._mapped:
            file = self._file(stored.file)
            self._mapped[stored.file] = np.frombuffer(
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8
            )
        content = self._mapped[stored.file][stored.offset : stored.offset + num_bytes(stored)]
        if content.size < num_bytes(stored):
            raise self._too_short(stored)
        return content.view(dtype_of(stored)).reshape(stored.shape)

    def close(self) -> None:
        """Close the files; maps stay until nobody uses them."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _file(self, name: str) -> Any:
        if name not in self._open:
            path = confined(self._folder, name, where=f"{self._origin}: weights")
            check_file(path)
            try:
                self._open[name] = path.open("rb", buffering=0)
            except OSError as cause:
                raise ModelFileError(f"{path} cannot be read: {cause}") from cause
        return self._open[name]

    def _too_short(self, stored: Stored) -> ModelFileError:
        end = stored.offset + num_bytes(stored)
        return ModelFileError(
            f"{self._folder / (stored.file or '')} ends before byte {end} that {self._origin} needs; it was "
            "probably cut short, fetch it again"
        )


def dtype_of(stored: Stored) -> np.dtype[Any]:
    """The element type of a tensor."""
    if stored.dtype == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(stored.dtype)


def num_bytes(stored: Stored) -> int:
    """Bytes of a tensor."""
    return math.prod(stored.shape) * dtype_of(stored).itemsize
