"""Typed access to a configuration, with messages that name the file and the key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from onnxgen.builder.spec import Activation
from onnxgen.errors import CheckpointError

_ACTIVATIONS = {
    "silu": Activation.SILU,
    "swish": Activation.SILU,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "gelu_new": Activation.GELU_TANH,
    "gelu": Activation.GELU,
}
_MAX_INTEGER = 2**31 - 1
"""What the files of a model folder have room for."""


class ConfigReader:
    """A configuration mapping that knows what it is called in messages. A null value counts as absent."""

    def __init__(self, values: Mapping[str, Any], *, where: str) -> None:
        self.values = values
        self.where = where

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def section(self, key: str) -> ConfigReader | None:
        """The mapping under a key, or None where it is absent."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.error(key, "an object")
        return ConfigReader(cast("Mapping[str, Any]", value), where=f"{self.where}: {key}")

    def integer(
        self, key: str, default: int | None = None, *, minimum: int = 1, maximum: int = _MAX_INTEGER
    ) -> int:
        """A whole number from ``minimum`` to ``maximum``; required where there is no default."""
        value = self._required(key, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise self.error(key, f"a whole number of at least {minimum}")
        if value > maximum:
            raise self.error(key, f"a whole number of at most {maximum}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A number above zero; required where there is no default."""
        value = self._required(key, default)
        if not _is_positive(value):
            raise self.error(key, "a number above zero")
        return float(value)

    def boolean(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._required(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "true or false")
        return value

    def optional_integer(self, key: str) -> int | None:
        """A whole number above zero, or None."""
        return self.integer(key) if key in self else None

    def optional_number(self, key: str) -> float | None:
        """A number above zero, or None."""
        return self.number(key) if key in self else None

    def optional_boolean(self, key: str) -> bool | None:
        """True, false, or None where it is absent."""
        return self.boolean(key, False) if key in self else None

    def numbers(self, key: str, count: int) -> tuple[float, ...]:
        """A list of ``count`` numbers above zero."""
        value = self._required(key, None)
        items = cast("list[Any]", value) if isinstance(value, (list, tuple)) else None
        if items is None or not all(_is_positive(x) for x in items):
            raise self.error(key, "a list of numbers above zero")
        if len(items) != count:
            raise CheckpointError(f"{self.where}: '{key}' has {len(items)} numbers, expected {count}")
        return tuple(float(x) for x in items)

    def words(self, key: str, count: int) -> tuple[str, ...] | None:
        """The first ``count`` of a list of strings, or None where it is absent."""
        value = self.values.get(key)
        if value is None:
            return None
        items = cast("list[Any]", value) if isinstance(value, (list, tuple)) else None
        if items is None or any(not isinstance(x, str) for x in items):
            raise self.error(key, "a list of strings")
        if len(items) < count:
            raise CheckpointError(f"{self.where}: '{key}' has {len(items)} entries, expected {count}")
        return tuple(items[:count])

    def activation(self, key: str, default: str) -> Activation:
        """The activation function of that name."""
        name = self._required(key, default)
        if not isinstance(name, str) or name not in _ACTIVATIONS:
            raise CheckpointError(
                f"{self.where}: activation {name!r} ('{key}') is not supported "
                f"(known: {', '.join(_ACTIVATIONS)})"
            )
        return _ACTIVATIONS[name]

    def error(self, key: str, expected: str) -> CheckpointError:
        """The error for a value of the wrong kind."""
        return CheckpointError(f"{self.where}: '{key}' is {self.values.get(key)!r}, expected {expected}")

    def _required(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            raise CheckpointError(f"{self.where}: the configuration has no '{key}'")
        return value


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
