"""Attributes that are checked when they are set, with a hint for names that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from onnxgen.errors import ConfigError
from onnxgen.foundations.suggest import did_you_mean

Check = Callable[[Any], Any]
"""Turns what was set into what is kept; raises ValueError with a phrase that completes "... is 3: "."""


class StrictAttributes:
    """An object with a fixed set of attributes.

    Args:
        defaults: First values by name.
        checks: What each attribute accepts, by name.
        values: Other first values; checked.
    """

    __slots__ = ("_checks", "_values")

    def __init__(
        self, defaults: Mapping[str, Any], checks: Mapping[str, Check], values: Mapping[str, Any]
    ) -> None:
        object.__setattr__(self, "_checks", checks)
        object.__setattr__(self, "_values", dict(defaults))
        for name, value in values.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(self).__name__
        if name not in self._checks:
            raise ConfigError(f"{kind} has no attribute {name!r}{did_you_mean(name, self._checks)}")
        try:
            self._values[name] = self._checks[name](value)
        except ValueError as cause:
            raise ConfigError(f"{kind}.{name} = {value!r}: {cause}") from cause

    def __getattr__(self, name: str) -> Any:
        values: dict[str, Any] = object.__getattribute__(self, "_values")
        if name in values:
            return values[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{did_you_mean(name, values)}")

    def reader(self, name: str) -> Callable[[], Any]:
        """A quick way to ask for an attribute again and again."""
        values: dict[str, Any] = object.__getattribute__(self, "_values")
        return partial(values.__getitem__, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._values})


def flag(value: Any) -> bool:
    """True or False."""
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise ValueError("expected True or False")


def text(value: Any) -> str:
    """Any text."""
    if isinstance(value, str):
        return value
    raise ValueError("expected a text")


def number(*allowed: int, why: str) -> Check:
    """One of these numbers, with a reason for why not others."""

    def check(value: Any) -> int:
        if type(value) is int and value in allowed:
            return value
        raise ValueError(why)

    return check
