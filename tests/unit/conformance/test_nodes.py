"""Nodes of a model alone, on the values of ONNX Runtime."""

import onnx.parser
import pytest

from onnxgen.conformance.nodes import compare_nodes, main
from onnxgen.graph.cpu.provider import CpuProvider
from onnxgen.graph.ep.kernel import Kernel

TEXT = """<ir_version: 8, opset_import: ["": 17]> g (float[n, 3] x) => (float[n, 3] y, int64[m] k)
    { a = Relu(x) y = Neg(a) s = Shape(y) k = Abs(s) }"""


@pytest.fixture
def path(tmp_path):
    onnx.save(onnx.parser.parse_model(TEXT), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_every_node_is_told(path):
    results = list(compare_nodes(path, {"n": 2}))
    assert [one.node.split()[0] for one in results] == ["Relu-14", "Neg-13", "Shape-15", "Abs-13"]
    assert all(one.difference == 0 and not one.failure for one in results)
    assert results[0].shapes == ((2, 3),)


def test_a_wrong_kernel_does_not_make_those_behind_it_wrong(path, monkeypatch, capsys):
    compile_node = CpuProvider.compile

    def compile_wrongly(self, node, claim):
        right = compile_node(self, node, claim)
        return Kernel(lambda x: right.run(x) + 1) if node.op_type in ("Relu", "Abs") else right

    monkeypatch.setattr(CpuProvider, "compile", compile_wrongly)
    differences = {one.node.split()[0]: one.difference for one in compare_nodes(path, {"n": 2})}
    assert differences["Relu-14"] > 0.1 and differences["Abs-13"] == 1
    assert differences["Neg-13"] == differences["Shape-15"] == 0
    assert main([str(path), "--dim", "n=2"]) == 1
    assert "4 nodes, 2 differ by more than 0.0001" in capsys.readouterr().out


def test_a_node_that_does_not_run_is_told(path, monkeypatch):
    monkeypatch.setattr(CpuProvider, "compile", lambda *_: Kernel(lambda *_: 1 / 0))
    assert {one.failure for one in compare_nodes(path, {})} == {"ZeroDivisionError: division by zero"}


def test_sizes_that_fit_nobody_are_an_error(tmp_path):
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[n] x) => (float[1, 5] y) <int64[2] s = {1, 5}> { y = Reshape(x, s) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="give sizes of its dimensions"):
        list(compare_nodes(tmp_path / "model.onnx", {}))
