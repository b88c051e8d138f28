import numpy as np
import pytest

from kernel_runs import assert_same, node_spec, run_ort
from onnxgen.graph.ep.provider import Claim, Decline
from onnxgen.graph.reference.provider import ReferenceProvider

REFERENCE = ReferenceProvider()
NAN = float("nan")


def text(*strings):
    array = np.empty(len(strings), object)
    array[:] = strings
    return array


def run(op_type, x, version, **attributes):
    node = node_spec(op_type, x, domain="ai.onnx.ml", opset=version, **attributes)
    claim = REFERENCE.claim(node)
    assert isinstance(claim, Claim), claim
    return REFERENCE.compile(node, claim).run(x)


@pytest.mark.parametrize(
    ("op_type", "x", "versions", "attributes"),
    [
        ("LabelEncoder", text("a", "c", "z"), (1,), {"classes_strings": ["a", "b", "c"], "default_int64": -5}),
        ("LabelEncoder", np.array([0, 2, 9]), (1,), {"classes_strings": ["a", "b", "c"], "default_string": "q"}),
        ("LabelEncoder", text("a", "z"), (2, 4), {"keys_strings": ["a"], "values_int64s": [3], "default_int64": -5}),
        ("LabelEncoder", np.array([1, np.nan, 2], np.float32), (2, 4), {"keys_floats": [1.0, NAN], "values_strings": ["x", "nan"]}),
        ("LabelEncoder", np.array([[4, 5]]), (2, 4), {"keys_int64s": [4], "values_floats": [0.5], "default_float": 2.0}),
        ("CategoryMapper", text("a", "z"), (1,), {"cats_int64s": [1, 2], "cats_strings": ["a", "b"], "default_int64": 9}),
        ("CategoryMapper", np.array([2, 5]), (1,), {"cats_int64s": [1, 2], "cats_strings": ["a", "b"]}),
        ("Normalizer", np.array([[1, -4, 2], [0, 0, 0]], np.float32), (1,), {"norm": "MAX"}),
        ("Normalizer", np.array([[1, -4, 2], [0, 0, 0]], np.float32), (1,), {"norm": "L1"}),
        ("Normalizer", np.array([[1, -4, 2], [0, 0, 0]], np.float32), (1,), {"norm": "L2"}),
        ("ZipMap", np.array([[0.5, 1], [2, 3]], np.float32), (1,), {"classlabels_int64s": [7, 8]}),
        ("ZipMap", np.array([[0.5, 1], [2, 3]], np.float32), (1,), {"classlabels_strings": ["a", "b"]}),
    ],
    ids=range(12),
)  # fmt: skip
def test_as_onnx_runtime(op_type, x, versions, attributes):
    for version in versions:
        want = run_ort(op_type, x, domain="ai.onnx.ml", opset=version, **attributes)
        got = run(op_type, x, version, **attributes)
        assert got == want if op_type == "ZipMap" else assert_same(got, want) is None


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"cast_to": "TO_FLOAT"}, [[0.5, 2.0]]),
        ({"cast_to": "TO_INT64"}, [[0, 2]]),
        ({"cast_to": "TO_FLOAT", "map_form": "SPARSE", "max_map": 4}, [[0, 0.5, 0, 2.0]]),
        ({"cast_to": "TO_STRING"}, [["0.5", "2.0"]]),
    ],
    ids=range(4),
)
def test_dictionaries_become_rows(attributes, expected):
    node = node_spec("CastMap", None, domain="ai.onnx.ml", opset=1, **attributes)
    assert REFERENCE.compile(node, REFERENCE.claim(node)).run({3: 2.0, 1: 0.5}).tolist() == expected


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("LinearRegressor", {"coefficients": [1.0], "post_transform": "SOFTMAX"}),
        ("LinearClassifier", {"coefficients": [1.0], "classlabels_ints": [0, 1]}),
        ("TreeEnsembleClassifier", {"classlabels_strings": ["a", "b"]}),
        ("TreeEnsembleRegressor", {"n_targets": 2, "aggregate_function": "MIN"}),
    ],
    ids=range(4),
)
def test_what_onnx_reference_has_wrong_is_declined(op_type, attributes):
    claim = REFERENCE.claim(
        node_spec(op_type, np.ones((1, 1), np.float32), domain="ai.onnx.ml", opset=1, **attributes)
    )
    assert isinstance(claim, Decline) and "onnx.reference" in claim.reason
