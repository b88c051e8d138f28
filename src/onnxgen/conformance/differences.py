"""How far two results are apart, in one number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np

from onnxgen.conformance.compare import plain
from onnxgen.graph.ir.types import is_ml_dtype

_LEAST_UNIT = 1e-3
"""Below it, differences are rounding: softmax and sigmoid give 1e-7 where others give 2e-7."""


def unit_of(value: Any) -> float:
    """What differences of a value are measured in: its largest finite magnitude, at least 0.001."""
    numbers = [np.nan_to_num(a.astype(np.float64), posinf=0, neginf=0) for a in _float_arrays(value)]
    return max([_LEAST_UNIT, *(float(np.abs(array).max()) for array in numbers if array.size)])


def largest_difference(found: Any, expected: Any) -> float:
    """The largest difference of floating-point numbers, each array's in its `unit_of`.

    Infinite where shapes differ, and where one is NaN and the other is not.
    """
    ones, others = list(_float_arrays(found)), list(_float_arrays(expected))
    if [one.shape for one in ones] != [other.shape for other in others]:
        return float("inf")
    worst = 0.0
    for one, other in zip(ones, others, strict=True):
        if one.size:
            with np.errstate(all="ignore"):
                difference = np.abs(one.astype(np.float64) - other.astype(np.float64))
            same = (one == other) | (np.isnan(one) & np.isnan(other))
            difference = np.where(same, 0, np.nan_to_num(difference, nan=np.inf))
            worst = max(worst, float(difference.max()) / unit_of(other))
    return worst


def _float_arrays(value: Any) -> Iterator[np.ndarray]:
    """Arrays of floating-point numbers in a value, whatever holds them."""
    if isinstance(value, float):
        yield np.array(value)
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "f" or is_ml_dtype(value.dtype):
            yield plain(value)
    elif isinstance(value, (list, tuple, dict)):
        items = cast("Iterable[Any]", value.values() if isinstance(value, dict) else value)
        for item in items:
            yield from _float_arrays(item)
