import onnx_ir as ir
import pytest

from onnxgen.backends.ort.graph_edit.names import LOGITS_ROWS, Rows
from onnxgen.backends.ort.graph_edit.row_selection import logits_to_float32, open_pruned_head, select_rows
from onnxgen.backends.ort.graph_edit.surgery import drop_dead_nodes
from tiny_decoders import FLOAT16, Sizes, Style, TinyDecoder, write_graph

DECODER = TinyDecoder(Sizes(layers=1), 1)


def tiny(**style):
    return ir.from_proto(write_graph(DECODER, Style(**style)))


def below(graph):
    """Operators that run on selected rows only."""
    found, pending = [], [v for n in graph if n.op_type == "GatherND" for v in n.outputs]
    while pending:
        for node in pending.pop().consumers():
            if node not in found:
                found.append(node)
                pending += node.outputs
    return sorted(n.op_type for n in found)


def test_the_selection_moves_up_to_the_last_attention():
    graph = tiny().graph
    assert select_rows(graph, logits="logits", hidden_states=None) is Rows.WANTED
    assert [v.name for v in graph.inputs][-1] == LOGITS_ROWS
    assert below(graph) == sorted(
        ["MatMul"] * 5
        + ["SkipSimplifiedLayerNormalization", "Sigmoid", "Mul", "Mul", "Add", "SimplifiedLayerNormalization"]
    )  # the projection behind attention, the whole feed-forward part, the last norm and the head
    gathered = {n.inputs[0].name for n in graph if n.op_type == "GatherND"}
    assert len(gathered) == 2
    assert "attention0" in gathered


def test_without_known_shapes_it_stays_before_the_head():
    graph = tiny(value_info=False).graph
    assert select_rows(graph, logits="logits", hidden_states=None) is Rows.WANTED
    assert below(graph) == ["MatMul"]


def test_hidden_states_are_selected_too():
    graph = tiny(hidden_states=True).graph
    assert select_rows(graph, logits="logits", hidden_states="hidden_states") is Rows.WANTED
    outputs = {v.name: v for v in graph.outputs}
    assert outputs["hidden_states"].producer().op_type == "GatherND"
    assert below(graph) == ["MatMul"]


@pytest.mark.parametrize("kind", ["gather", "slice"])
def test_a_pruned_head_is_opened(kind):
    model = tiny(pruned_head=kind)
    pruned = len(model.graph)
    open_pruned_head(model.graph, logits="logits")
    drop_dead_nodes(model)
    assert len(model.graph) == pruned - (2 if kind == "gather" else 1)
    assert select_rows(model.graph, logits="logits", hidden_states=None) is Rows.WANTED


def test_logits_of_the_last_position_only_are_recognized():
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (int64[b, s] input_ids, float[b, 1, 8] w) => (float[b, 1, 8] logits) { logits = Identity(w) }"""
    graph = ir.from_onnx_text(text).graph
    assert select_rows(graph, logits="logits", hidden_states=None) is Rows.LAST


def test_a_head_that_mixes_rows_gives_all_of_them():
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (int64[b, s] input_ids, float[b, s, 8] x) => (float[b, s, 8] logits)
    { n = Cast<to = 1>(input_ids) m = CumSum(x, input_ids) logits = Identity(m) }"""
    graph = ir.from_onnx_text(text).graph
    before = len(graph.inputs)
    assert select_rows(graph, logits="logits", hidden_states=None) is Rows.ALL
    assert len(graph.inputs) == before


def test_logits_leave_the_graph_as_float32():
    graph = tiny(logits=FLOAT16).graph
    logits_to_float32(graph, logits="logits")
    output = next(v for v in graph.outputs if v.name == "logits")
    assert output.dtype == ir.DataType.FLOAT
    count = len(graph)
    logits_to_float32(graph, logits="logits")
    assert len(graph) == count
