"""Checks of single option values: numbers and integers within their ranges."""

from __future__ import annotations

import math

from onnxgen.errors import OptionError


def check_number(name: str, value: object, *, low: float, high: float) -> float:
    """A finite number within ``[low, high]``.

    Raises:
        OptionError: It is not a number (a bool is none), not finite or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise OptionError(f"{name} must be a number {_between(low, high)}, got {value!r:.60}")
    try:
        number = float(value)
    except OverflowError:  # an int beyond all floats
        number = math.inf
    if not math.isfinite(number) or not low <= number <= high:
        raise OptionError(f"{name} must be a finite number {_between(low, high)}, got {value!r:.60}")
    return number


def check_repetition_penalty(value: object) -> float:
    """A finite number above 0.

    Raises:
        OptionError: It is none.
    """
    number = check_number("repetition_penalty", value, low=0, high=math.inf)
    if number == 0:
        raise OptionError("repetition_penalty must be above 0, got 0; 1 switches it off")
    return number


def check_integer(name: str, value: object, *, low: int, high: int | None = None) -> int:
    """An integer within ``[low, high]``; None is no upper bound.

    Raises:
        OptionError: It is not an integer (a bool is none) or out of range.
    """
    between = _between(low, math.inf if high is None else high)
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionError(f"{name} must be an integer {between}, got {value!r:.60}")
    if value < low or (high is not None and value > high):
        raise OptionError(f"{name} must be {between.removeprefix('of ')}, got {value}")
    return value


def _between(low: float, high: float) -> str:
    least = f"{low:g}" if isinstance(low, float) else low
    return f"of at least {least}" if high == math.inf else f"between {least} and {high}"
