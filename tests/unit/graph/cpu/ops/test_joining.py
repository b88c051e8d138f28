from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_runs import kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import KernelError


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(-2, 1))
def test_split_undoes_concat(lengths, axis):
    parts = [np.arange(3 * n).reshape((n, 3) if axis in (0, -2) else (3, n)) for n in lengths]
    joined = run_cpu("Concat", *parts, axis=axis)
    assert joined.shape[axis] == sum(lengths)
    found = run_cpu("Split", joined, np.array(lengths), axis=axis, outputs=len(lengths))
    found = found if len(lengths) > 1 else (found,)
    assert [part.tolist() for part in found] == [part.tolist() for part in parts]


def test_strings_are_joined_and_split():
    x = np.array(["a", "b", "c"], object)
    assert run_cpu("Concat", x, x, axis=0).tolist() == ["a", "b", "c", "a", "b", "c"]
    assert [part.tolist() for part in run_cpu("Split", x, num_outputs=2, outputs=2)] == [["a", "b"], ["c"]]


@pytest.mark.parametrize(("size", "count"), [(6, 3), (7, 3), (2, 2), (4, 3)])
def test_the_last_of_num_outputs_may_be_smaller(size, count):
    x = np.arange(2 * size, dtype=np.float32).reshape(2, size)
    got = run_cpu("Split", x, axis=-1, num_outputs=count, outputs=count, opset=18)
    want = run_ort("Split", x, axis=-1, num_outputs=count, outputs=count, opset=18)
    assert [part.tolist() for part in got] == [part.tolist() for part in want]


def test_old_versions_take_lengths_in_their_way():
    x = np.arange(6)
    assert [p.tolist() for p in run_cpu("Split", x, split=[4, 2], outputs=2, opset=2)] == [
        [0, 1, 2, 3],
        [4, 5],
    ]
    assert [len(p) for p in run_cpu("Split", x, np.array([1, 5]), outputs=2, opset=1)] == [1, 5]
    assert [len(p) for p in run_cpu("Split", x, outputs=3, opset=11)] == [2, 2, 2]
    assert run_cpu("Concat", x[None], x[None], opset=1).shape == (1, 12)


@pytest.mark.parametrize(
    ("op_type", "inputs", "options", "message"),
    [
        ("Concat", (np.zeros((2, 3)), np.zeros((2, 4))), {"axis": 0}, "differ elsewhere than on axis 0"),
        ("Concat", (np.zeros((2, 3)), np.zeros(3)), {"axis": 0}, "differ"),
        ("Split", (np.zeros(5), np.array([2, 2])), {"outputs": 2}, "2 parts of 5"),
        ("Split", (np.zeros(5), np.array([-1, 6])), {"outputs": 2}, "2 parts of 5"),
        ("Split", (np.zeros(5),), {"outputs": 2, "opset": 13}, "equal parts"),
    ],
)
def test_parts_that_do_not_fit_are_errors(op_type, inputs, options, message):
    with pytest.raises(KernelError, match=message):
        kernel_of(node_spec(op_type, *inputs, **options)).run(*inputs)
