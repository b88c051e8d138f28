import onnx
import pytest

from onnx_models import floats, function, model, node, weight
from onnxgen.errors import InvalidGraphError, ModelFileError
from onnxgen.graph.ir.schemas import newest_opset
from onnxgen.graph.loader import load_graph

NODES = [node("Relu", "x", "y")]


def test_a_newer_format_is_refused_with_both_numbers():
    with pytest.raises(ModelFileError, match=rf"IR version 99.*up to {onnx.IR_VERSION}"):
        load_graph(model(NODES, ir_version=99))


def test_a_newer_opset_is_refused_with_both_numbers():
    with pytest.raises(ModelFileError, match=rf"opset 999.*up to {newest_opset()}"):
        load_graph(model(NODES, opsets={"": 999}))
    with pytest.raises(ModelFileError, match=r"function 'f' imports opset 999"):
        load_graph(model(NODES, functions=[function("f", [], outputs="a", opsets={"": 999})]))


def test_domains_have_one_spelling():
    made = model([node("Relu", "x", "y", domain="ai.onnx")], opsets={"ai.onnx": 17})
    loaded = load_graph(made).model
    assert loaded.graph.opset_imports == {"": 17} and loaded.graph[0].domain == ""


def test_opsets_of_others_may_be_any():
    made = model([node("Nobody", "x", "y", domain="of.somebody")], opsets={"": 17, "of.somebody": 2**40})
    assert load_graph(made).model.graph.opset_imports["of.somebody"] == 2**40


def test_domains_that_nobody_imported_are_imported_in_the_newest_version():
    nodes = [node("Nobody", "x", "z", domain="of.somebody"), node("Scaler", "z", "y", domain="ai.onnx.ml")]
    imports = load_graph(model(nodes, opsets={"": 17})).model.graph.opset_imports
    assert imports == {"": 17, "of.somebody": 1, "ai.onnx.ml": newest_opset("ai.onnx.ml")}


def test_models_without_opsets_mean_the_first_one_before_version_3():
    assert load_graph(model(NODES, opsets={}, ir_version=2)).model.graph.opset_imports == {"": 1}
    with pytest.raises(InvalidGraphError, match=r"imports no operator set"):
        load_graph(model(NODES, opsets={}))


def test_the_same_domain_twice():
    made = model(NODES)
    made.opset_import.add(domain="ai.onnx", version=17)
    assert load_graph(made).model.graph.opset_imports == {"": 17}
    made.opset_import.add(domain="", version=16)
    with pytest.raises(InvalidGraphError, match=r"imports domain 'ai.onnx' as version 17 and 16"):
        load_graph(made)


def test_versions_below_1_are_no_versions():
    with pytest.raises(InvalidGraphError, match=r"imports version 0 of domain 'ai.onnx'"):
        load_graph(model(NODES, opsets={"": 0}))


def test_initializers_are_no_inputs_before_version_4():
    made = model([node("Add", "x w", "y")], inputs="x w", initializers=[weight("w")], ir_version=3)
    assert [v.name for v in load_graph(made).model.graph.inputs] == ["x"]
    made.ir_version = 4
    assert [v.name for v in load_graph(made).model.graph.inputs] == ["x", "w"]
    assert load_graph(model([node("Add", "x w", "y")], initializers=[weight("w")], ir_version=3))


def test_attributes_without_kinds_of_version_1():
    made = model([node("LeakyRelu", "x", "y", alpha=0.5)], ir_version=1, opsets={"": 6})
    made.graph.node[0].attribute[0].ClearField("type")
    assert load_graph(made).model.graph[0].attributes["alpha"].as_float() == 0.5


def test_hints_that_are_unusable_go_and_negative_dimensions_are_unknown():
    made = model(NODES)
    made.graph.input[0].CopyFrom(floats("x", [-1, 3]))
    made.graph.output[0].type.tensor_type.elem_type = 99
    made.graph.value_info.extend([floats("nobody"), onnx.ValueInfoProto(name="x"), onnx.ValueInfoProto()])
    loaded = load_graph(made).model
    assert loaded.graph.inputs[0].shape == (None, 3) and loaded.graph.outputs[0].type is None


@pytest.mark.parametrize(
    "declared",
    [onnx.TypeProto(), onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor(elem_type=99))],
    ids=range(2),
)
def test_an_input_whose_type_says_nothing(declared):
    made = model(NODES)
    made.graph.input[0].type.CopyFrom(declared)
    with pytest.raises(InvalidGraphError, match="input 'x': its "):
        load_graph(made)
