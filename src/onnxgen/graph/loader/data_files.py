"""Files of external data: confined to the model's folder, mapped once, never copied."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from onnxgen.errors import ModelFileError
from onnxgen.foundations.files import check_file, confined


class DataFiles:
    """The data files of one model, each mapped once."""

    def __init__(self, folder: Path | None, origin: str) -> None:
        self._folder = folder
        self._origin = origin
        self._mapped: dict[str, np.ndarray] = {}

    def extent(self, location: str, offset: int, length: int, *, tensor: str) -> np.ndarray:
        """Bytes of a file as a read-only ``uint8`` array over the mapping.

        Args:
            location: File name, relative to the model's folder.
            offset: Where the bytes start.
            length: How many.
            tensor: What they are of, for messages.

        Raises:
            ModelFileError: The file is missing, not a regular file or not inside the folder, or is too short.
        """
        where = f"{self._origin}: external data of tensor {tensor!r}"
        if self._folder is None:
            raise ModelFileError(
                f"{where} is in the file {location!r}, but the model was not loaded from a file, so nobody knows in "
                "which folder; load it from its path"
            )
        if location not in self._mapped:
            self._mapped[location] = _map(confined(self._folder, location, where=where), where)
        content = self._mapped[location]
        if offset + length > content.size:
            raise ModelFileError(
                f"{where} is said to be bytes {offset} to {offset + length} of {self._folder / location}, which has "
                f"{content.size}; it was probably cut short, fetch it again"
            )
        return content[offset : offset + length]


def _map(path: Path, where: str) -> np.ndarray:
    check_file(path)
    try:
        with path.open("rb") as file:
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as cause:
        raise ModelFileError(f"{where}: {path} cannot be mapped into memory: {cause}") from cause
    return np.frombuffer(mapping, np.uint8)
