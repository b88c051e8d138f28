from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import KernelError

MS = "com.microsoft"


def compare(op_type, *inputs, **options):
    assert_same(*(run(op_type, *inputs, domain=MS, **options) for run in (run_cpu, run_ort)))


def test_the_runtimes_own_shapes():
    x = np.arange(42, dtype=np.float32).reshape(2, 7, 3)
    compare("UnfoldTensor", x, dim=1, size=3, step=2)
    compare("UnfoldTensor", x[:, :, 0].copy(), size=4)
    for axis in (-1, 0, 1):
        compare("ExpandDims", x, np.array(axis, np.int32))
    compare("SampleOp", x)
    compare("Unique", np.random.default_rng().integers(0, 4, 9).astype(np.float32), outputs=3)
    compare("Trilu", x, np.array(1, np.int64), upper=0)


def test_windows_must_fit():
    x = np.zeros((2, 3))
    with pytest.raises(KernelError, match="windows of 4"):
        kernel_of(node_spec("UnfoldTensor", x, domain=MS, size=4)).run(x)


def test_rows_of_a_table():
    table = np.arange(6.0).reshape(3, 2)
    assert_same(run_cpu("TorchEmbedding", table, np.array([[2, 0]]), domain=MS), table[[[2, 0]]])
    with pytest.raises(KernelError, match="index 3"):
        kernel_of(node_spec("TorchEmbedding", table, np.array([3]), domain=MS)).run(table, np.array([3]))
