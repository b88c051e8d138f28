"""Compiling loops."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from numba.core import caching

from onnxgen.graph.cpu.compiled.function import compiled, given, written


def _twice(x, y):
    for i in range(x.size):
        y[i] = 2 * x[i]


def test_what_cannot_be_kept_on_disk_is_compiled_all_the_same(monkeypatch):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    twice = compiled(_twice, [given(np.float32, 1), written(np.float32, 1)])
    y = np.zeros(3, np.float32)
    twice(np.arange(3, dtype=np.float32), y)
    assert y.tolist() == [0, 2, 4]


def test_inputs_may_be_read_only_or_not_without_compiling_again():
    twice = compiled(_twice, [given(np.float64, 1), written(np.float64, 1)])
    x, y = np.arange(3.0), np.zeros(3)
    twice(x, y)
    x.flags.writeable = False
    twice(x, y)
    assert y.tolist() == [0, 2, 4] and len(twice.signatures) == 1


def test_the_table_of_kernels_does_not_import_numba():
    program = (
        "import sys; from onnxgen.graph.cpu.provider import CpuProvider; CpuProvider().table; "
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
