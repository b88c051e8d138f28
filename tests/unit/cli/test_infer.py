import json

import ml_dtypes
import numpy as np
import onnx
import pytest

from onnxgen.cli.commands.infer import description

MODEL = """<ir_version: 10, opset_import: ["" : 17]>
g (float[batch, seq] x, int64[batch, total] ids, bool[batch] flag) => (y, n)
{ twice = Add(x, x)  y = Relu(twice)  n = Size(ids) }"""


@pytest.fixture
def graph(tmp_path):
    model = onnx.parser.parse_model(MODEL)
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "seq + 1"
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return path


def inferred(onnxgen, *arguments):
    result = onnxgen("infer", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_random_inputs_have_the_sizes_of_their_symbols(onnxgen, graph):
    found = inferred(onnxgen, graph, "--dim", "batch=2", "--dim", "seq=3", "--runs", "3")
    assert found["inputs"]["x"]["shape"] == [2, 3]
    assert found["inputs"]["ids"]["shape"] == [2, 4]
    assert found["inputs"]["ids"]["min"] == found["inputs"]["ids"]["max"] == 1
    assert found["inputs"]["flag"] == {"type": "bool", "shape": [2], "min": 1, "max": 1, "mean": 1.0}
    assert found["outputs"]["y"]["shape"] == [2, 3]
    assert found["outputs"]["n"] == {"type": "int64", "shape": [], "min": 8, "max": 8, "mean": 8.0}
    assert found["runs"] == 3
    assert found["median_run_s"] > 0


def test_files_are_fed_as_they_are(onnxgen, graph, tmp_path):
    x = np.array([[1.5, -2.0]], np.float32)
    np.save(tmp_path / "x.npy", x)
    found = inferred(onnxgen, graph, "--input", f"x={tmp_path / 'x.npy'}")
    assert found["outputs"]["y"] == {"type": "float32", "shape": [1, 2], "min": 0.0, "max": 3.0, "mean": 1.5}
    assert found["median_run_s"] is None


def test_the_seed_makes_random_inputs_repeatable(onnxgen, graph):
    first, again, other = (inferred(onnxgen, graph, "--seed", seed)["inputs"] for seed in (4, 4, 5))
    assert first == again != other


def test_the_text_names_values_as_the_model_does(onnxgen, graph):
    text = onnxgen("infer", graph, "--dim", "seq=2").stdout
    assert "  y: float32[1, 2], min" in text
    assert "first run: " in text
    assert "None" not in text


def test_the_trace_has_every_node(onnxgen, graph, tmp_path):
    trace = tmp_path / "out.json"
    inferred(onnxgen, graph, "--trace", trace, "--optimization", "disabled")
    events = json.loads(trace.read_text())["traceEvents"]
    nodes = [event["args"]["operator"] for event in events if event.get("cat") == "node"]
    assert {text.split("-")[0] for text in nodes} >= {"Add", "Relu", "Size"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--input", "x"), "NAME=FILE"),
        (("--input", "z=x.npy"), "it takes x, ids, flag"),
        (("--input", "x=missing.npy"), "missing.npy"),
        (("--dim", "bach=2"), "batch"),
        (("--runs", "0"), "--runs"),
    ],
)
def test_wrong_options_are_usage_errors(onnxgen, graph, arguments, message):
    result = onnxgen("infer", graph, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_value_of_the_wrong_type_is_told_with_the_input(onnxgen, graph, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((1, 2)))
    result = onnxgen("infer", graph, "--input", f"x={tmp_path / 'x.npy'}")
    assert result.exit_code == 1
    assert "'x'" in result.stderr


def test_pickles_are_not_opened(onnxgen, graph, tmp_path):
    np.save(tmp_path / "x.npy", np.array([{}], object), allow_pickle=True)
    assert onnxgen("infer", graph, "--input", f"x={tmp_path / 'x.npy'}").exit_code == 2


def test_inputs_that_are_no_tensors_are_asked_for(onnxgen, tmp_path):
    path = tmp_path / "model.onnx"
    text = '<ir_version: 10, opset_import: ["" : 17]> g (seq(float[n]) s) => (y) { y = SequenceLength(s) }'
    onnx.save(onnx.parser.parse_model(text), path)
    result = onnxgen("infer", path)
    assert result.exit_code == 1
    assert "input 's' is seq(tensor(float))" in result.stderr


def test_values_are_described_by_what_can_be_said():
    assert description(np.array([1.0, np.nan, np.inf], np.float32)) == {
        "type": "float32", "shape": [3], "min": 1.0, "max": 1.0, "mean": 1.0, "nan": 1, "infinite": 1,
    }  # fmt: skip
    assert description(np.zeros((0, 2))) == {"type": "float64", "shape": [0, 2]}
    assert description(np.array(["a"], object)) == {"type": "string", "shape": [1]}
    assert description(np.array([1.5], ml_dtypes.bfloat16))["mean"] == 1.5
    assert description(np.array([1, 3], ml_dtypes.int4))["max"] == 3
    assert description([1, 2]) == {"type": "list", "size": 2}
    assert description(None) == {"type": "none", "size": None}
    assert description(np.array([3 + 4j]))["mean_magnitude"] == 5.0
