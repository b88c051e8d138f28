from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import InvalidGraphError, KernelError

ML = "ai.onnx.ml"
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]


class Numbers:
    def __init__(self):
        seed = int(np.random.default_rng().integers(2**31))
        print("seed", seed)
        self.rng = np.random.default_rng(seed)

    def list(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32).ravel().tolist()

    def rows(self, count, features, dtype=np.float32):
        return (self.rng.standard_normal((count, features)) * 2).astype(dtype)


def compare(op_type, x, *, outputs=1, tolerance=1e-4, **options):
    got, want = (
        run(op_type, x, domain=ML, opset=1, outputs=outputs, **options) for run in (run_cpu, run_ort)
    )
    assert_same(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 3])
def test_linear_regression(transform, targets):
    make = Numbers()
    options = {"coefficients": make.list(targets, 4), "intercepts": make.list(targets), "targets": targets}
    compare("LinearRegressor", make.rows(6, 4), post_transform=transform, **options)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(("rows", "labels"), [(1, 2), (2, 2), (3, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_linear_classification(transform, rows, labels, dtype):
    make = Numbers()
    options = {"coefficients": make.list(rows, 4), "intercepts": make.list(rows), "post_transform": transform}
    x = make.rows(6, 4, dtype)
    compare("LinearClassifier", x, outputs=2, classlabels_ints=[9, 4, 6][:labels], **options)
    compare("LinearClassifier", x, outputs=2, classlabels_strings=["x", "y", "z"][:labels], **options)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vector_regression(kernel, one_class):
    make = Numbers()
    options = {"rho": [0.1], "one_class": one_class, "kernel_params": [0.3, 0.2, 2.0]}
    vectors = {"support_vectors": make.list(3, 4), "n_supports": 3, "coefficients": make.list(3)}
    compare("SVMRegressor", make.rows(5, 4), kernel_type=kernel, **vectors, **options)
    compare("SVMRegressor", make.rows(5, 4), coefficients=make.list(4), **options)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("probabilities", [False, True])
def test_support_vector_classification(transform, classes, probabilities):
    make = Numbers()
    for kernel in KERNELS:
        counts, pairs = make.rng.integers(1, 4, classes).tolist(), classes * (classes - 1) // 2
        options = {
            "coefficients": make.list(classes - 1, sum(counts)),
            "support_vectors": make.list(sum(counts), 4),
            "vectors_per_class": counts,
            "rho": make.list(pairs),
            "kernel_type": kernel,
            "kernel_params": [0.3, 0.2, 2.0],
            "post_transform": transform,
            "classlabels_ints": [8, 3, 5][:classes],
        }
        if probabilities:
            options |= {"prob_a": [-abs(a) for a in make.list(pairs)], "prob_b": make.list(pairs)}
        compare("SVMClassifier", make.rows(5, 4), outputs=2, tolerance=2e-3, **options)


def test_one_weighted_sum_for_each_class():
    make = Numbers()
    options = {"coefficients": make.list(3, 4), "kernel_params": [0.0, 0.0, 0.0], "rho": [0.3]}
    compare("SVMClassifier", make.rows(5, 4), outputs=2, classlabels_strings=["a", "b", "c"], **options)


@pytest.mark.parametrize("positive", [False, True])
def test_of_two_weighted_sums_a_high_one_means_the_second_class(positive):
    make = Numbers()
    weights = np.array(make.list(2, 4))
    options = {
        "coefficients": (np.abs(weights) if positive else weights).tolist(),
        "kernel_params": [0.0] * 3,
    }
    compare("SVMClassifier", make.rows(30, 4), outputs=2, classlabels_ints=[7, 5], rho=[0.1], **options)


def test_the_transform_of_a_regression_by_support_vectors_is_ignored():
    options = {"coefficients": [0.1, 0.2, 0.3, 0.4], "rho": [0.1], "kernel_params": [0.0] * 3}
    compare("SVMRegressor", Numbers().rows(5, 4), post_transform="PROBIT", **options)


def test_the_probit_of_one_score_is_the_first_of_two():
    x, options = np.array([[0.3]], np.float32), {"coefficients": [1.0], "intercepts": [0.0], "domain": ML}
    options |= {"classlabels_ints": [0, 1], "post_transform": "PROBIT", "outputs": 2}
    got, want = (run("LinearClassifier", x, opset=1, **options)[1] for run in (run_cpu, run_ort))
    assert_same(got[:, 0], want[:, 0])
    assert got[0, 1] == -got[0, 0]


def test_models_and_inputs_of_different_widths_are_errors():
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(KernelError, match="3 features where the model has 4"):
        kernel_of(node_spec("LinearRegressor", x, domain=ML, coefficients=[1.0] * 4)).run(x)
    with pytest.raises(InvalidGraphError, match="do not make 2 rows"):
        kernel_of(node_spec("LinearRegressor", x, domain=ML, coefficients=[1.0] * 3, targets=2))
    with pytest.raises(InvalidGraphError, match="no class labels"):
        kernel_of(node_spec("LinearClassifier", x, domain=ML, coefficients=[1.0] * 3))
    with pytest.raises(InvalidGraphError, match="kernel_type 'COSINE'"):
        kernel_of(node_spec("SVMRegressor", x, domain=ML, kernel_type="COSINE"))
