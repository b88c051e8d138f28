from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import KernelError

ML = "ai.onnx.ml"
WORDS = np.array([["a", "b", "zz"], ["c", "a", ""]], object)
NUMBERS = np.array([[-1, 0, 1], [2, 3, 5]])
FLOATS = np.array([1.5, 3.0, 0.0, np.nan], np.float32)


@pytest.mark.parametrize(
    ("x", "opset", "options"),
    [
        (WORDS, 1, {"classes_strings": ["a", "b", "c"], "default_int64": -5}),
        (NUMBERS, 1, {"classes_strings": ["a", "b", "c"]}),
        (
            WORDS,
            2,
            {"keys_strings": ["a", "b", "a"], "values_floats": [1.5, 2.5, 9.0], "default_float": -1.0},
        ),
        (WORDS, 2, {"keys_strings": ["a", "b"], "values_int64s": [1, 2]}),
        (WORDS, 2, {"keys_strings": ["a", "b"], "values_strings": ["x", "y"]}),
        (FLOATS, 2, {"keys_floats": [1.5, 3.0], "values_strings": ["x", "y"]}),
        (FLOATS, 2, {"keys_floats": [1.5, 3.0], "values_floats": [7.0, 8.0]}),
        (NUMBERS, 2, {"keys_int64s": [1, 2], "values_floats": [3.0, 4.0]}),
        (NUMBERS, 2, {"keys_int64s": [1, 2], "values_strings": ["3", "4"], "default_string": "q"}),
        (FLOATS, 4, {"keys_floats": [1.5, float("nan")], "values_strings": ["x", "n"]}),
        (
            WORDS,
            4,
            {"keys_tensor": np.array(["a", "b"], object), "values_tensor": np.array([7, 8], np.int64)},
        ),
        (
            FLOATS.astype(np.float64),
            4,
            {"keys_tensor": np.array([1.5, np.nan]), "values_tensor": np.array([7.0, 8.0])}
            | {"default_tensor": np.array([9.0])},
        ),
    ],
)
def test_labels_are_encoded_as_by_the_runtime(x, opset, options):
    assert_same(*(run("LabelEncoder", x, domain=ML, opset=opset, **options) for run in (run_cpu, run_ort)))


REPEATED = {"keys_strings": ["a", "b", "a"], "values_int64s": [1, 2, 3]}


@pytest.mark.parametrize(
    ("x", "opset", "options"),
    [
        (WORDS, 1, {"classes_strings": ["a", "b", "a"], "default_int64": -5}),
        (WORDS, 2, REPEATED),
        (WORDS, 4, REPEATED),
        (FLOATS, 2, {"keys_floats": [float("nan"), -0.0], "values_int64s": [4, 5]}),
        (FLOATS, 4, {"keys_floats": [float("nan"), -0.0], "values_int64s": [4, 5]}),
    ],
)
def test_keys_that_repeat_or_equal_nothing(x, opset, options):
    assert_same(*(run("LabelEncoder", x, domain=ML, opset=opset, **options) for run in (run_cpu, run_ort)))


def test_categories_map_both_ways():
    options = {"cats_strings": ["a", "b", "a"], "cats_int64s": [2, 3, 3], "domain": ML, "opset": 1}
    for x, default in ((WORDS, {"default_int64": -3}), (NUMBERS, {"default_string": "??"})):
        assert_same(*(run("CategoryMapper", x, **options, **default) for run in (run_cpu, run_ort)))


def test_one_hot_vectors():
    for x, options in [
        (WORDS, {"cats_strings": ["b", "a"]}),
        (WORDS, {"cats_strings": ["a", "b", "a"]}),
        (NUMBERS.astype(np.float32), {"cats_int64s": [0, 1, -1]}),
        (np.arange(3), {"cats_int64s": [0, 1, 2], "zeros": 0}),
    ]:
        assert_same(*(run("OneHotEncoder", x, domain=ML, opset=1, **options) for run in (run_cpu, run_ort)))
    with pytest.raises(KernelError, match="'zz' is not one of the categories"):
        kernel_of(node_spec("OneHotEncoder", WORDS, domain=ML, cats_strings=["a", "b"], zeros=0)).run(WORDS)


@pytest.mark.parametrize("labels", [{"classlabels_strings": ["a", "b"]}, {"classlabels_int64s": [7, 5]}])
def test_scores_become_a_list_of_dictionaries(labels):
    scores = np.array([[0.1, 0.9], [0.4, 0.6]], np.float32)
    got, want = (run("ZipMap", scores, domain=ML, opset=1, **labels) for run in (run_cpu, run_ort))
    assert got == want


def test_dictionaries_become_rows():
    vector = kernel_of(node_spec("DictVectorizer", None, domain=ML, string_vocabulary=["a", "c", "b", "z"]))
    assert_same(vector.run({"a": 4, "c": 8}), np.array([[4, 8, 0, 0]], np.int64))
    assert_same(vector.run({"z": 0.5}), np.array([[0, 0, 0, 0.5]], np.float32))
    assert_same(vector.run({"z": "s"}), np.array([["", "", "", "s"]], object))
    doubles = node_spec(
        "DictVectorizer", None, domain=ML, int64_vocabulary=[3, 1], output_types=[ir.DataType.DOUBLE]
    )
    assert_same(kernel_of(doubles).run({1: 0.5}), np.array([[0, 0.5]]))


def test_maps_are_cast_by_key():
    dense = kernel_of(node_spec("CastMap", None, domain=ML, cast_to="TO_INT64"))
    assert_same(dense.run({5: "7", 2: "3"}), np.array([[3, 7]], np.int64))
    sparse = kernel_of(node_spec("CastMap", None, domain=ML, map_form="SPARSE", max_map=4))
    assert_same(sparse.run({3: 1.5}), np.array([[0, 0, 0, 1.5]], np.float32))
    with pytest.raises(KernelError, match="do not fit a sparse map of 4"):
        sparse.run({4: 1.0})
