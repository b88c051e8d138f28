import json

import onnx
import pytest

from onnxgen.cli.placement_text import placement_json, placement_text
from onnxgen.graph.placement import PlacementRow

MODEL = """<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>
g (float[batch, 8] x_in) => (float[a, b] y_out)
<float[8, 4] w = {0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1}>
{ product = MatMul(x_in, w)  y_out = Relu(product) }"""
STRANGE = """<ir_version: 10, opset_import: ["" : 17, "org.example" : 1]>
g (float[n] x) => (float[n] y) { h = org.example.Odd(x)  y = org.example.Even(h) }"""


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), path)
    return path


def test_an_onnx_file_shows_its_inputs_and_outputs(onnxgen, graph):
    facts = json.loads(onnxgen("show", graph, "--json").stdout)["model"]
    assert facts["kind"] == "ONNX file"
    assert facts["inputs"] == {"x_in": "tensor(float) [batch, 8]"}
    assert facts["outputs"] == {"y_out": "tensor(float) [a, b]"}
    assert facts["nodes"] == 2
    assert facts["matrices"] == {"w": "1 x float"}
    assert "  x_in: tensor(float) [batch, 8]" in onnxgen("show", graph).stdout


def test_the_plan_is_python_that_names_the_operators(onnxgen, graph):
    result = onnxgen("show", graph, "--plan", "--optimization", "disabled")
    assert result.exit_code == 0, result.stderr
    compile(result.stdout, "plan", "exec")
    assert "MatMul" in result.stdout and "Relu" in result.stdout


def test_the_placement_says_who_runs_what(onnxgen, graph):
    result = onnxgen("show", graph, "--placement", "--optimization", "disabled")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["node", "operator", "provider", "kernel", "bytes", "operations", "seconds"]
    assert lines[1].split()[1:3] == ["MatMul-13", "cpu"]
    assert lines[1].split()[-3:] == ["?", "?", "?"]
    assert lines[-1].startswith("2 nodes: cpu 2; no estimate")
    assert "without 2 whose sizes are not known" in lines[-1]


def test_sizes_make_costs_known(onnxgen, graph):
    arguments = ("show", graph, "--placement", "--dim", "batch=3", "--optimization", "disabled", "--json")
    rows = json.loads(onnxgen(*arguments).stdout)["placement"]
    product = rows[0]
    assert product["operations"] == 2 * 3 * 4 * 8
    assert product["bytes"] == 4 * (3 * 8 + 8 * 4 + 3 * 4)
    assert product["seconds"] > 0


def test_providers_are_asked_in_the_order_of_the_list(onnxgen, graph):
    for names in ("reference", "reference,cpu"):
        arguments = (
            "show",
            graph,
            "--placement",
            "--json",
            "--optimization",
            "disabled",
            "--providers",
            names,
        )
        rows = json.loads(onnxgen(*arguments).stdout)
        assert {row["provider"] for row in rows["placement"]} == {"reference"}
        assert all(row["declined"] == {} for row in rows["placement"])


def test_declines_stand_under_their_node():
    rows = [
        PlacementRow("n", "", "Odd-1", "reference", "python", {"cpu": "has no kernel for it"}, 1, 2, 3.0),
        PlacementRow("m", "n.body", "If-1", "executor", "executor", {}, None, 12_345_678, None),
    ]
    lines = placement_text(rows).splitlines()
    assert lines[2] == "    cpu declined: has no kernel for it"
    assert lines[3].split() == ["n.body/m", "If-1", "executor", "executor", "?", "12.3", "M", "?"]
    assert lines[4].startswith("2 nodes: reference 1, executor 1; estimated 3.0e+00 s, without 1")
    assert placement_json(rows)[0]["declined"] == {"cpu": "has no kernel for it"}


def test_nodes_that_nobody_runs_are_an_error_with_all_of_them(onnxgen, tmp_path):
    path = tmp_path / "strange.onnx"
    onnx.save(onnx.parser.parse_model(STRANGE), path)
    result = onnxgen("show", path, "--placement")
    assert result.exit_code == 1
    assert "org.example.Odd" in result.stderr and "org.example.Even" in result.stderr
    assert "cpu: has no kernel for it" in result.stderr
    assert result.stdout == ""


def test_the_trace_has_the_steps(onnxgen, graph, tmp_path):
    trace = tmp_path / "out.json"
    assert onnxgen("show", graph, "--plan", "--trace", trace).exit_code == 0
    names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    assert {"load", "placement"} <= names
    assert sorted(item.name for item in tmp_path.iterdir() if item.suffix == ".json") == ["out.json"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--plan", "--dim", "batch"), "NAME=SIZE"),
        (("--plan", "--dim", "batch=-1"), "NAME=SIZE"),
        (("--plan", "--dim", "batsch=1"), "batch"),
        (("--plan", "--optimization", "most"), "disabled, basic, extended, all"),
        (("--plan", "--providers", "cup"), "cpu"),
        (("--plan", "--providers", ","), "names no provider"),
        (("--plan", "--trace", "no/such/folder/x.json"), "no folder"),
        (("--trace", "x.json"), "--plan"),
        (("--providers", "cpu", "--dim", "batch=2"), "--providers, --dim: only"),
    ],
)
def test_wrong_options_are_usage_errors(onnxgen, graph, arguments, message):
    result = onnxgen("show", graph, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_folder_with_one_graph_stands_for_it(onnxgen, graph):
    assert "def plan" in onnxgen("show", graph.parent, "--plan").stdout
    (graph.parent / "second.onnx").write_bytes(graph.read_bytes())
    result = onnxgen("show", graph.parent, "--plan")
    assert result.exit_code == 1
    assert "model.onnx, second.onnx" in result.stderr


def test_a_missing_file_is_said(onnxgen):
    result = onnxgen("show", "nothing.onnx", "--plan")
    assert result.exit_code == 1
    assert "'nothing.onnx'" in result.stderr
