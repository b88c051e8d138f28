from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import InvalidGraphError, KernelError


def seeded():
    seed = int(np.random.default_rng().integers(2**31))
    print("seed", seed)
    return np.random.default_rng(seed)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_elements_are_written_and_reduced_as_by_the_runtime(reduction, axis, dtype):
    rng = seeded()
    data = rng.integers(-5, 5, (3, 4, 5)).astype(dtype)
    shape = [2, 3, 4]
    size = data.shape[axis]
    shape[axis] = size if reduction == "none" else 7  # without a reduction duplicates have no defined result
    indices = (
        np.argsort(rng.random(shape), axis=axis) if reduction == "none" else rng.integers(-size, size, shape)
    )
    updates = rng.integers(-5, 5, shape).astype(dtype)
    options = {"axis": axis, "reduction": reduction, "opset": 18}
    got, want = (run("ScatterElements", data, indices, updates, **options) for run in (run_cpu, run_ort))
    assert_same(got, want)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_slices_are_written_and_reduced_as_by_the_runtime(reduction, depth):
    rng = seeded()
    data = rng.standard_normal((3, 4, 5)).astype(np.float32)
    sizes = np.array(data.shape[:depth])
    count = 3 if reduction == "none" else 6
    indices = rng.integers(-sizes, sizes, (count, depth))
    if reduction == "none":
        indices = np.stack([rng.permutation(3)] + [rng.integers(0, n, 3) for n in sizes[1:]], axis=-1)
    updates = rng.standard_normal((count, *data.shape[depth:])).astype(np.float32)
    options = {"reduction": reduction, "opset": 18}
    got, want = (run("ScatterND", data, indices, updates, **options) for run in (run_cpu, run_ort))
    assert_same(got, want)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.bool_, np.uint8])
def test_duplicates_add_up_in_every_element_type(dtype):
    data, indices = np.zeros(3, dtype), np.array([1, 1, -1])
    updates = np.array([1, 1, 1]).astype(dtype)
    want = [0, 2, 1] if dtype is not np.bool_ else [False, True, True]
    assert run_cpu("ScatterElements", data, indices, updates, reduction="add").tolist() == want
    assert run_cpu("ScatterND", data, indices[:, None], updates, reduction="add").tolist() == want


def test_strings_and_narrow_integers_are_written():
    data, indices = np.array(["a", "b"], object), np.array([1])
    assert run_cpu("ScatterElements", data, indices, np.array(["z"], object)).tolist() == ["a", "z"]
    narrow = np.array([1, 2]).astype(ml_dtypes.int4)
    assert run_cpu("ScatterND", narrow, np.array([[0]]), narrow[1:]).tolist() == [2, 2]
    assert run_cpu(
        "Scatter", np.zeros((1, 2)), np.array([[1]]), np.ones((1, 1)), axis=1, opset=9
    ).tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("op_type", "indices", "updates", "message"),
    [
        ("ScatterElements", [[2]], [[1.0]], r"index 2 is outside \[-2, 2\)"),
        ("ScatterND", [[-3]], [[1.0, 1.0]], r"index -3 is outside \[-2, 2\)"),
        ("ScatterElements", [[0]], [[1.0, 2.0]], "do not fit"),
        ("ScatterElements", [0], [1.0], "do not fit"),
        ("ScatterND", [[0]], [[1.0]], "do not fit"),
        ("ScatterND", [[0, 0, 0]], [1.0], "do not fit"),
    ],
)
def test_what_does_not_fit_is_an_error(op_type, indices, updates, message):
    inputs = np.zeros((2, 2)), np.array(indices), np.array(updates)
    with pytest.raises(KernelError, match=message):
        kernel_of(node_spec(op_type, *inputs)).run(*inputs)


def test_an_unknown_reduction_is_an_error():
    with pytest.raises(InvalidGraphError, match="mean"):
        kernel_of(node_spec("ScatterND", np.zeros(2), np.zeros((1, 1)), np.zeros(1), reduction="mean"))
