"""Sizes that are in values: no kernel makes an array that does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import node_spec, run_cpu
from onnxgen.errors import KernelError
from onnxgen.foundations.cpuinfo import MemoryInfo
from onnxgen.graph.cpu import memory
from onnxgen.graph.cpu.memory import require_memory

GIB = 2**30
ONE, SMALL = np.ones(1, np.float32), np.ones((1, 1, 2, 2), np.float32)
SIDE = 2**17


def whole(*values):
    return np.array(values, np.int64)


def number(value):
    return np.array(value, np.int64)


@pytest.fixture
def left(monkeypatch):
    """Says how much memory is left."""
    return lambda left: monkeypatch.setattr(memory, "detect_memory", lambda: MemoryInfo(None, left))


def test_what_does_not_fit_is_refused_with_both_numbers(left):
    left(GIB)
    node = node_spec("Tile", ONE, whole(1))
    with pytest.raises(
        KernelError, match=r"Tile-13: .* \(536870913,\) of float16 needs 1.07 GB, 1.07 GB are left"
    ) as failure:
        require_memory(node, (GIB // 2 + 1,), np.dtype(np.float16))
    assert isinstance(failure.value.__cause__, MemoryError)
    require_memory(node, (GIB // 2,), np.dtype(np.float16))


def test_nothing_is_refused_where_nobody_knows_what_is_left(left):
    left(None)
    require_memory(node_spec("Tile", ONE, whole(1)), (2**60,), np.dtype(np.float64))


def test_small_arrays_are_not_asked_for(left):
    left(0)
    require_memory(node_spec("Tile", ONE, whole(1)), (1000,), np.dtype(np.float64))


CASES = {
    "Range": ([number(0), number(10**12), number(1)], {}),
    "ConstantOfShape": ([whole(SIDE, SIDE)], {}),
    "Expand": ([ONE, whole(SIDE, SIDE)], {}),
    "Tile": ([ONE, whole(2**40)], {}),
    "Pad": ([ONE, whole(0, 2**40)], {}),
    "OneHot": ([whole(1), number(2**40), ONE.repeat(2)], {}),
    "CenterCropPad": ([SMALL, whole(1, 1, SIDE, SIDE)], {}),
    "RandomNormal": ([], {"shape": (SIDE, SIDE)}),
    "Multinomial": ([np.ones((1, 2), np.float32)], {"sample_size": 2**40}),
    "Conv": ([SMALL, SMALL], {"pads": (SIDE,) * 4}),
    "MaxPool": ([SMALL], {"kernel_shape": (2, 2), "pads": (SIDE,) * 4}),
    "LpPool": ([SMALL], {"kernel_shape": (2, 2), "pads": (SIDE,) * 4}),
    "MaxUnpool": (
        [SMALL, np.zeros((1, 1, 2, 2), np.int64), whole(1, 1, SIDE, SIDE)],
        {"kernel_shape": (2, 2)},
    ),
}


@pytest.mark.parametrize("op_type", CASES)
def test_operators_whose_values_ask_for_too_much_say_so(op_type, left):
    left(GIB)
    inputs, attributes = CASES[op_type]
    with pytest.raises(KernelError, match="are left"):
        run_cpu(op_type, *inputs, **attributes)
