from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import InvalidGraphError, KernelError

ML = "ai.onnx.ml"
TYPES = [np.float32, np.float64, np.int64, np.int32]


def rows(dtype, *shape):
    seed = int(np.random.default_rng().integers(2**31))
    print("seed", seed)
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)


def compare(op_type, *inputs, **options):
    got, want = (run(op_type, *inputs, domain=ML, opset=1, **options) for run in (run_cpu, run_ort))
    assert_same(got, want)


@pytest.mark.parametrize("dtype", TYPES)
def test_features_become_what_the_runtime_makes_of_them(dtype):
    x = rows(dtype, 5, 3)
    compare("Scaler", x, offset=[0.5, 1.0, -1.0], scale=[2.0, 0.5, 1.0])
    compare("Scaler", x, offset=[0.5], scale=[2.0])
    for norm in ("MAX", "L1", "L2"):
        compare("Normalizer", x, norm=norm)
        compare("Normalizer", np.zeros_like(x), norm=norm)
        compare("Normalizer", x[:0], norm=norm)
    compare("FeatureVectorizer", x, x, inputdimensions=[3, 3])
    compare("FeatureVectorizer", x, x, inputdimensions=[5, 2])
    compare("ArrayFeatureExtractor", x, np.array([2, 0, 0]))
    compare("ArrayFeatureExtractor", x[0], np.array([2, 0]))


def test_the_largest_value_is_a_number():
    compare("Normalizer", np.array([[np.nan, -1.0, -2.0], [0.0, np.nan, -0.0]], np.float32), norm="MAX")


def test_missing_values_are_replaced():
    x = rows(np.float32, 5, 3)
    x[::2, 1] = np.nan
    compare("Imputer", x, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float("nan"))
    compare("Imputer", np.round(x), imputed_value_floats=[7.0], replaced_value_float=1.0)
    compare("Imputer", rows(np.int64, 5, 3), imputed_value_int64s=[7], replaced_value_int64=1)
    doubles = run_cpu(
        "Imputer", x.astype(np.float64), domain=ML, imputed_value_floats=[9.0], replaced_value_float=np.nan
    )
    assert doubles[0, 1] == 9.0
    assert doubles.dtype == np.float64


def test_thresholds_are_exclusive():
    compare("Binarizer", np.array([[0.2, 0.3, 0.4]], np.float32), threshold=0.3)
    assert run_cpu("Binarizer", np.array([1, 2, 3]), domain=ML, threshold=2.0).tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("op_type", "options", "error", "message"),
    [
        ("Scaler", {"offset": [1.0], "scale": [1.0, 2.0]}, InvalidGraphError, "as many of each"),
        ("Scaler", {"offset": [1.0, 2.0], "scale": [1.0, 2.0]}, KernelError, "2 offsets for 3 features"),
        ("Normalizer", {"norm": "L3"}, InvalidGraphError, "'L3'"),
        ("Imputer", {}, InvalidGraphError, "needs imputed values"),
        ("Imputer", {"imputed_value_floats": [1.0, 2.0]}, KernelError, "2 imputed values for 3"),
        ("FeatureVectorizer", {"inputdimensions": [1, 2]}, KernelError, "for 1 inputs"),
    ],
)
def test_what_does_not_fit_is_an_error(op_type, options, error, message):
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(error, match=message):
        kernel_of(node_spec(op_type, x, domain=ML, **options)).run(x)
