from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import KernelError

MS = "com.microsoft"


def numbers(*shape):
    seed = int(np.random.default_rng().integers(2**31))
    print("seed", seed)
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances_are_the_runtimes(metric):
    a, b = numbers(4, 3), numbers(5, 3)
    got, want = (run("CDist", a, b, domain=MS, metric=metric) for run in (run_cpu, run_ort))
    assert_same(got, want, rtol=1e-3, atol=1e-3)


def test_other_distances():
    a, b = numbers(4, 3), numbers(5, 3)
    differences = np.abs(a[:, None] - b)
    assert_same(run_cpu("CDist", a, b, domain=MS, metric="cityblock"), differences.sum(-1))
    assert_same(run_cpu("CDist", a, b, domain=MS, metric="chebyshev"), differences.max(-1))


def test_pairs_multiply_as_complex_numbers():
    a, b = numbers(2, 3, 2), numbers(3, 2)
    x, y = (part[..., 0] + 1j * part[..., 1] for part in (a, b))
    for op_type, want in (("ComplexMul", x * y), ("ComplexMulConj", x * y.conj())):
        assert_same(run_cpu(op_type, a, b, domain=MS), np.stack([want.real, want.imag], -1), rtol=1e-4)


@pytest.mark.parametrize("ndim", [1, 2])
def test_transforms_are_numpys_and_undo_each_other(ndim):
    x = numbers(3, 4, 6)
    y = run_cpu("Rfft", x, domain=MS, signal_ndim=ndim)
    want = np.fft.rfftn(x.astype(np.float64), axes=tuple(range(-ndim, 0)))
    assert_same(y, np.stack([want.real, want.imag], -1).astype(np.float32), rtol=1e-4, atol=1e-4)
    assert_same(run_cpu("Irfft", y, domain=MS, signal_ndim=ndim), x, rtol=1e-4, atol=1e-4)


def test_inverses_and_singular_matrices():
    x = numbers(2, 3, 3) + 3 * np.eye(3, dtype=np.float32)
    got, want = (run("Inverse", x, domain=MS) for run in (run_cpu, run_ort))
    assert_same(got, want, rtol=1e-3, atol=1e-3)
    with pytest.raises(KernelError, match="Singular"):
        kernel_of(node_spec("Inverse", np.zeros((2, 2)), domain=MS)).run(np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("options", "of_inf", "of_nan"),
    [({}, False, False), ({"isinf_only": 1}, False, True), ({"isnan_only": 1}, True, False)],
)
def test_what_is_finite(options, of_inf, of_nan):
    one, inf, nan = (np.array([1, value], np.float16) for value in (2, np.inf, np.nan))
    assert run_cpu("IsAllFinite", one, one, domain=MS, **options)
    assert bool(run_cpu("IsAllFinite", one, inf, domain=MS, **options)) is of_inf
    assert bool(run_cpu("IsAllFinite", nan, domain=MS, **options)) is of_nan


def test_a_product_through_a_gelu():
    x, weight, bias = numbers(2, 3, 4), numbers(4, 5), numbers(5)
    got = run_cpu("GemmFastGelu", x, weight, bias, domain=MS)
    assert_same(got, run_ort("FastGelu", x @ weight, bias, domain=MS), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 4), (1, 5, 2), (4, 4), (1, 1), (1, 6), (6, 1)])
def test_paths_are_the_runtimes_also_among_equals(shape):
    costs = np.round(numbers(*shape), 0)
    assert_same(*(run("DynamicTimeWarping", costs, domain=MS) for run in (run_cpu, run_ort)))
