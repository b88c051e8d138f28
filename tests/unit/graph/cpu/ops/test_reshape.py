from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import KernelError

ELEMENT_TYPES = [
    *(np.float32, np.int8, np.uint64, np.bool_, np.float16, object),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint4),
]


def some(shape, dtype=np.float32):
    flat = np.arange(int(np.prod(shape))) % 7
    if dtype is object:
        return np.array([f"s{i}" for i in flat], object).reshape(shape)
    return flat.reshape(shape).astype(dtype)


def ints(*values):
    return np.array(values, np.int64)


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_every_element_type_keeps_its_elements(dtype):
    x = some((2, 1, 6), dtype)
    for op_type, *inputs in [
        ("Reshape", ints(3, -1)),
        ("Squeeze", ints(1)),
        ("Unsqueeze", ints(0, -1)),
        ("Flatten",),
        ("Identity",),
        ("Transpose",),
    ]:
        y = run_cpu(op_type, x, *inputs)
        assert y.dtype == x.dtype
        assert sorted(map(str, y.reshape(-1))) == sorted(map(str, x.reshape(-1)))


@pytest.mark.parametrize(
    ("shape", "wanted", "allowzero"),
    [
        ((2, 3, 4), (4, 6), 0),
        ((2, 3, 4), (0, -1), 0),
        ((2, 3, 4), (-1, 0), 0),
        ((2, 3, 4), (0, 0, 2, 2), 0),
        ((), (1, 1), 0),
        ((1,), (), 0),
        ((0, 3), (3, 0), 1),
        ((0, 3), (0, 7), 1),
        ((4, 0, 3), (2, -1, 0), 0),
    ],
)
@pytest.mark.parametrize("constants", [(), (1,)])
def test_reshape_resolves_zeros_and_minus_one_as_the_runtime_does(shape, wanted, allowzero, constants):
    x = some(shape)
    options = {"allowzero": allowzero, "opset": 14, "constants": constants}
    assert_same(
        run_cpu("Reshape", x, ints(*wanted), **options), run_ort("Reshape", x, ints(*wanted), **options)
    )


@pytest.mark.parametrize(
    ("wanted", "allowzero", "message"),
    [
        ((5, 5), 0, "24 elements"),
        ((-1, -1), 0, "one -1"),
        ((-2, 12), 0, "one -1"),
        ((2, 3, 4, 0), 0, "does not have"),
        ((0, -1), 1, "ambiguous"),
        ((5, -1), 0, "another number"),
    ],
)
def test_reshape_says_what_does_not_fit(wanted, allowzero, message):
    x = some((2, 3, 4))
    with pytest.raises(KernelError, match=message):
        kernel_of(node_spec("Reshape", x, ints(*wanted), allowzero=allowzero)).run(x, ints(*wanted))


def test_minus_one_beside_a_zero_is_an_error():
    x = some((0, 3))
    with pytest.raises(KernelError, match="beside a 0"):
        kernel_of(node_spec("Reshape", x, ints(0, -1))).run(x, ints(0, -1))


def test_old_versions_take_attributes():
    x = some((2, 1, 3))
    assert run_cpu("Reshape", x, opset=1, shape=[3, 0, -1]).shape == (3, 1, 2)
    assert run_cpu("Squeeze", x, opset=1, axes=[1]).shape == (2, 3)
    assert run_cpu("Squeeze", x, opset=11).shape == (2, 3)
    assert run_cpu("Unsqueeze", x, opset=1, axes=[0, 4]).shape == (1, 2, 1, 3, 1)
    assert run_cpu("Flatten", x, opset=1, axis=0).shape == (1, 6)


@pytest.mark.parametrize(
    ("op_type", "inputs", "message"),
    [
        ("Squeeze", (some((2, 3)), ints(0)), "not all of size 1"),
        ("Squeeze", (some((1, 3)), ints(2)), "axis 2 is outside"),
        ("Unsqueeze", (some((2,)), ints(0, 0)), "twice"),
        ("Unsqueeze", (some((2,)), ints(3)), "axis 3 is outside"),
    ],
)
def test_axes_that_do_not_fit_are_errors(op_type, inputs, message):
    with pytest.raises(KernelError, match=message):
        kernel_of(node_spec(op_type, *inputs)).run(*inputs)


def test_a_permutation_has_every_axis_once():
    for perm, message in [([0, 0, 1], "twice"), ([0, 1], "rank 3"), ([0, 1, 3], "outside")]:
        with pytest.raises(KernelError, match=message):
            kernel_of(node_spec("Transpose", some((2, 3, 4)), perm=perm)).run(some((2, 3, 4)))


@given(st.permutations(range(4)), st.lists(st.integers(0, 4), min_size=4, max_size=4))
def test_transpose_moves_axes(perm, shape):
    x = some(shape)
    y = run_cpu("Transpose", x, perm=perm)
    assert y.shape == tuple(shape[axis] for axis in perm)
    assert np.array_equal(np.transpose(y, np.argsort(perm)), x)
