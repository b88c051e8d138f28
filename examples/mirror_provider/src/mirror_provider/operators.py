"""The operators that run on the device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mirror_provider.device import MirrorValue, launch, to_device, to_host

Apply = Callable[..., MirrorValue]


def _elementwise(function: np.ufunc) -> Apply:
    return lambda *values: launch(function, *values)


def _relu(value: MirrorValue) -> MirrorValue:
    return launch(np.maximum, value, to_device(np.zeros((), value.dtype)))


def _matmul(first: MirrorValue, second: MirrorValue) -> MirrorValue:
    return to_device(np.asarray(np.matmul(to_host(first), to_host(second))))


OPERATORS: dict[str, tuple[tuple[int, ...], Apply]] = {
    "Abs": ((6, 13), _elementwise(np.absolute)),
    "Add": ((7, 13, 14), _elementwise(np.add)),
    "Identity": ((1, 13, 14, 16, 19, 21, 23, 24, 25), lambda value: value),
    "MatMul": ((9, 13), _matmul),
    "Mul": ((7, 13, 14), _elementwise(np.multiply)),
    "Neg": ((6, 13), _elementwise(np.negative)),
    "Relu": ((6, 13, 14), _relu),
    "Sub": ((7, 13, 14), _elementwise(np.subtract)),
}
"""Operator of the standard to the versions whose meaning is implemented, and what runs it."""
