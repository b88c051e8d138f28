"""ReverseSequence."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort


@pytest.mark.parametrize("axes", [(0, 1), (1, 0)])
def test_each_sequence_has_its_own_length(axes):
    rng = fresh_rng()
    x = rng.standard_normal((4, 4, 2)).astype(np.float32)
    lengths = rng.integers(1, 5, 4)
    options = {"time_axis": axes[0], "batch_axis": axes[1]}
    got = run_cpu("ReverseSequence", x, lengths, **options)
    assert_same(got, run_ort("ReverseSequence", x, lengths, opset=10, **options))


def test_strings_reverse_too():
    x = np.array([["a", "b"], ["c", "d"]], dtype=object)
    assert run_cpu("ReverseSequence", x, np.array([2, 1])).tolist() == [["c", "b"], ["a", "d"]]
