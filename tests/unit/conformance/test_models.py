"""Models against ONNX Runtime: each verdict there is."""

import onnx.parser
import pytest

from onnxgen.conformance.models import compare_model, main
from onnxgen.graph.session import InferenceSession


@pytest.fixture
def file(tmp_path):
    def write(graph, name="model.onnx"):
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}')
        onnx.save(model, tmp_path / name)
        return tmp_path / name

    return write


def verdict(path, **options):
    return compare_model(path, ["cpu"], {}, seed=1, **options)


def test_equal_models_are_run_on_several_sizes(file):
    found = verdict(file("g (float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }"))
    assert found.startswith("equal within 0.0e+00 at x[1, 3]; x[")


def test_a_difference_is_told_with_its_place(file, monkeypatch):
    run = InferenceSession.run
    monkeypatch.setattr(InferenceSession, "run", lambda *a, **k: [y + 1 for y in run(*a, **k)])
    found = verdict(file("g (float[1] x) => (float[1] y) { y = Abs(x) }"))
    assert found.startswith("differs: y: ") and found.endswith("at x[1] (level disabled)")


def test_integers_are_the_same(file, monkeypatch):
    run = InferenceSession.run
    monkeypatch.setattr(InferenceSession, "run", lambda *a, **k: [y + 1 for y in run(*a, **k)])
    path = file("g (float[1] x) => (int64[1] y) <int64[1] n = {100000}> { a = Shape(x) y = Add(a, n) }")
    assert verdict(path).startswith("differs: y: 100002 at [0], expected 100001")


def test_what_onnx_runtime_cannot_tell_is_not_compared(file):
    assert verdict(file("g (float[1] x) => (float[1] y) { y = Nobody(x) }")).startswith(
        "not compared: ONNX Runtime does"
    )
    reshape = "g (float[n] x) => (float[1, 5] y) <int64[2] s = {1, 5}> { y = Reshape(x, s) }"
    assert verdict(file(reshape)).startswith("not compared: ONNX Runtime refuses every size")
    sequence = "g (seq(float[1]) x) => (float[1] y) <int64 i = {0}> { y = SequenceAt(x, i) }"
    assert verdict(file(sequence)).startswith("not compared: input 'x' is a seq")


def test_what_fails_here_is_told(file, monkeypatch):
    path = file("g (float[1] x) => (float[1] y) { y = Abs(x) }")
    monkeypatch.setattr(InferenceSession, "run", lambda *_: 1 / 0)
    assert verdict(path).startswith("fails: ZeroDivisionError: ")
    assert compare_model(path, ["nobody"], {}, seed=1).startswith("not loaded: ")


def test_the_command_counts_the_verdicts(file, tmp_path, capsys):
    file("g (float[1] x) => (float[1] y) { y = Relu(x) }", "a.onnx")
    file("g (float[1] x) => (float[1] y) { y = Nobody(x) }", "b.onnx")
    assert main([str(tmp_path), "--levels", "all", "--providers", "cpu"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 equal, 1 not compared"
