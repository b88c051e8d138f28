from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import KernelError


def seeded():
    seed = int(np.random.default_rng().integers(2**31))
    print("seed", seed)
    return np.random.default_rng(seed)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3), st.lists(st.integers(0, 3), max_size=3), st.data()
)
def test_gather_is_numpys_take(shape, index_shape, data):
    x = np.arange(int(np.prod(shape))).reshape(shape)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = shape[axis]
    count = int(np.prod(index_shape))
    flat = data.draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
    indices = np.array(flat, np.int64).reshape(index_shape)
    got = run_cpu("Gather", x, indices, axis=axis)
    assert_same(got, np.take(x, indices, axis=axis))


@pytest.mark.parametrize(
    "dtype", [object, np.bool_, ml_dtypes.int4, ml_dtypes.bfloat16, np.float16, np.uint16]
)
def test_every_element_type_is_gathered(dtype):
    x = (
        np.array([["a", "b"], ["c", "d"]], object)
        if dtype is object
        else np.arange(4).reshape(2, 2).astype(dtype)
    )
    assert run_cpu("Gather", x, np.array([-1, 0])).tolist() == x[[1, 0]].tolist()
    assert run_cpu("Gather", x[0], np.array(1)).tolist() == x[0, 1]
    assert run_cpu("GatherElements", x, np.array([[1, 0]])).tolist() == [[x[1, 0], x[0, 1]]]
    assert run_cpu("GatherND", x, np.array([[1, -2]])).tolist() == [x[1, 0]]
    assert run_cpu("Compress", x, np.array([False, True]), axis=1).tolist() == x[:, 1:].tolist()


def test_gather_elements_reads_less_than_the_data():
    rng = seeded()
    x = rng.standard_normal((4, 5, 6)).astype(np.float32)
    for axis in (-3, 1, 2):
        shape = [3, 4, 5]
        shape[axis] = 7
        indices = rng.integers(-x.shape[axis], x.shape[axis], shape)
        got, want = (run("GatherElements", x, indices, axis=axis, opset=13) for run in (run_cpu, run_ort))
        assert_same(got, want)


@pytest.mark.parametrize(
    ("shape", "index_shape", "batch_dims"),
    [
        *(((4, 5, 6), (3, 2), 0), ((4, 5, 6), (1,), 0), ((4, 5), (2, 3, 2), 0), ((2, 5, 6), (2, 3, 1), 1)),
        *(((2, 3, 5), (2, 3, 1), 2), ((2, 5, 6), (2, 2), 1), ((2, 4), (0, 1), 0)),
    ],
)
def test_gather_nd_takes_slices_at_tuples(shape, index_shape, batch_dims):
    rng = seeded()
    x = rng.standard_normal(shape).astype(np.float32)
    sizes = np.array(shape[batch_dims : batch_dims + index_shape[-1]])
    indices = rng.integers(-sizes, sizes, index_shape)
    got, want = (run("GatherND", x, indices, batch_dims=batch_dims, opset=13) for run in (run_cpu, run_ort))
    assert_same(got, want)


@pytest.mark.parametrize("op_type", ["Gather", "GatherElements", "GatherND"])
@pytest.mark.parametrize("bad", [3, -4])
def test_an_index_outside_is_named_with_the_bounds(op_type, bad):
    inputs = np.zeros((3, 1)), np.array([[bad]])
    with pytest.raises(KernelError, match=rf"index {bad} is outside \[-3, 3\)"):
        kernel_of(node_spec(op_type, *inputs)).run(*inputs)


@pytest.mark.parametrize(
    ("op_type", "shape", "index_shape", "options"),
    [
        ("GatherElements", (3, 3), (3,), {}),
        ("GatherElements", (3, 3), (3, 4), {}),
        ("GatherND", (3, 3), (2, 3), {}),
        ("GatherND", (3, 3), (2, 1), {"batch_dims": 1}),
    ],
)
def test_indices_of_a_shape_that_does_not_fit_are_errors(op_type, shape, index_shape, options):
    inputs = np.zeros(shape), np.zeros(index_shape, np.int64)
    with pytest.raises(KernelError, match="do not fit"):
        kernel_of(node_spec(op_type, *inputs, **options)).run(*inputs)


def test_compress_keeps_what_the_condition_says():
    x = np.arange(6).reshape(2, 3)
    assert run_cpu("Compress", x, np.array([False, True, True, False, True])).tolist() == [1, 2, 4]
    assert run_cpu("Compress", x, np.array([True]), axis=-1).tolist() == [[0], [3]]
    with pytest.raises(KernelError, match="does not fit 2 elements"):
        kernel_of(node_spec("Compress", x, np.ones(3, bool), axis=0)).run(x, np.ones(3, bool))


@pytest.mark.parametrize(
    ("x", "places"),
    [
        (np.array([[0, 1.5], [np.nan, 0]]), [[0, 1], [1, 0]]),
        (np.array(5), np.empty((0, 1))),
        (np.array(False), np.empty((0, 0))),
        (np.array([0, 2, 0, 3]).astype(ml_dtypes.int4), [[1, 3]]),
    ],
)
def test_non_zero_elements_have_places(x, places):
    assert_same(run_cpu("NonZero", x), np.array(places, np.int64))
