"""Attributes that are checked when they are set, with a hint for names that do not exist."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from onnxgen.errors import ConfigError
from onnxgen.foundations.suggest import did_you_mean

Check = Callable[[Any], Any]
"""Turns what was set into what is kept; raises ValueError with a phrase that completes "... is 3: "."""

Field = tuple[Any, Check]
"""An attribute's first value and what it accepts."""


class StrictAttributes:
    """An object with a fixed set of attributes, given as keyword arguments or set later; it can be copied and pickled.

    Subclasses say which in ``_fields``. What else they have is in slots, and a dictionary each.
    """

    __slots__ = ("_values",)
    _fields: ClassVar[Mapping[str, Field]]

    def __init__(self, **values: Any) -> None:
        object.__setattr__(self, "_values", {name: first for name, (first, _) in self._fields.items()})
        for name, value in values.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(self).__name__
        if name not in self._fields:
            raise ConfigError(f"{kind} has no attribute {name!r}{did_you_mean(name, self._fields)}")
        _, check = self._fields[name]
        try:
            self._values[name] = check(value)
        except ValueError as cause:
            raise ConfigError(f"{kind}.{name} = {value!r}: {cause}") from cause

    def __getattr__(self, name: str) -> Any:
        if name in self._fields:
            return object.__getattribute__(self, "_values")[name]
        raise AttributeError(
            f"{type(self).__name__} has no attribute {name!r}{did_you_mean(name, self._fields)}"
        )

    def reader(self, name: str) -> Callable[[], Any]:
        """A quick way to ask for an attribute again and again."""
        values: dict[str, Any] = object.__getattribute__(self, "_values")
        return partial(values.__getitem__, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._fields})

    def __getstate__(self) -> dict[str, dict[str, Any]]:
        slots = [slot for kind in type(self).__mro__ for slot in getattr(kind, "__slots__", ())]
        return {slot: object.__getattribute__(self, slot) for slot in slots}

    def __setstate__(self, state: dict[str, dict[str, Any]]) -> None:
        for slot, content in state.items():
            object.__setattr__(self, slot, dict(content))


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


def num_threads(value: Any) -> int:
    """0 for as many as the process uses, or more."""
    if not isinstance(value, bool):
        try:
            found = operator.index(value)
        except TypeError:
            pass
        else:
            if found >= 0:
                return found
    raise ValueError("expected a number of threads, or 0 for as many as the process uses")
