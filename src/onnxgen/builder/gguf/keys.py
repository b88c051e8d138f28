"""Typed access to the metadata of one architecture."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxgen.errors import CheckpointError
from onnxgen.foundations.suggest import did_you_mean


@dataclass(frozen=True, slots=True)
class ArchitectureKeys:
    """Metadata keys that begin with an architecture's name, such as ``llama.block_count``.

    Attributes:
        path: The file, for messages.
        architecture: The prefix of the keys.
        metadata: All keys and values of the file.
    """

    path: Path
    architecture: str
    metadata: Mapping[str, Any]

    def integer(self, name: str) -> int:
        """A whole number that must be there."""
        value = self.optional_integer(name)
        if value is None:
            raise self._missing(name)
        return value

    def positive(self, name: str) -> int:
        """A whole number above 0 that must be there."""
        value = self.integer(name)
        if not value:
            raise self._wrong(name, value, "a whole number above 0")
        return value

    def optional_integer(self, name: str) -> int | None:
        """A whole number, None when the key is missing."""
        value = self._scalar(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong(name, value, "a whole number, not negative")
        return value

    def number(self, name: str) -> float:
        """A number that must be there."""
        value = self.optional_number(name)
        if value is None:
            raise self._missing(name)
        return value

    def optional_number(self, name: str) -> float | None:
        """A number, None when the key is missing.

        Most are stored in float32; the result is the shortest decimal that means the same float32
        (1e-05, not 9.999999747378752e-06), as configurations have them.
        """
        value = self._scalar(name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self._wrong(name, value, "a number")
        if not np.isfinite(value):
            raise self._wrong(name, value, "a finite number")
        return shortest(float(value))

    def optional_word(self, name: str) -> str | None:
        """A string, None when the key is missing."""
        value = self._scalar(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, value, "a string")
        return value

    def _scalar(self, name: str) -> Any:
        value = self.metadata.get(f"{self.architecture}.{name}")
        if isinstance(value, np.ndarray):
            same = {*value.tolist()}
            if len(same) != 1:
                raise self._wrong(name, value, "one value; values that differ by layer are not supported")
            return same.pop()
        return value

    def _missing(self, name: str) -> CheckpointError:
        key = f"{self.architecture}.{name}"
        hint = did_you_mean(key, self.metadata)
        return CheckpointError(f"{self.path}: metadata key {key!r} is missing{hint}")

    def _wrong(self, name: str, value: object, expected: str) -> CheckpointError:
        return CheckpointError(
            f"{self.path}: metadata key '{self.architecture}.{name}' is {reprlib.repr(value)}, expected {expected}"
        )


def shortest(value: float) -> float:
    """The shortest decimal that rounds to the same float32; other values as they are."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    return float(str(single)) if float(single) == value else value
