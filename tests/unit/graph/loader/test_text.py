import pytest

from onnx_models import model, node, weight
from onnxgen.errors import InvalidGraphError
from onnxgen.graph.loader import load_graph


def broken(word):
    """The model with a byte in the middle of one of its words that no text has."""
    made = model([node("NameOfOperator", "NameOfInput", "NameOfOutput", domain="NameOfDomain", name="NameOfNode", NameOfAttribute=1)],
                 inputs="NameOfInput", outputs="NameOfOutput", initializers=[weight("NameOfTensor")])  # fmt: skip
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "NameOfDimension"
    made.graph.name, made.graph.node[0].doc_string = "NameOfGraph", "NameOfText"
    made.producer_name = "NameOfProducer"
    made.metadata_props.add(key="k", value="NameOfEntry")
    content = made.SerializeToString()
    assert word.encode() in content
    return content.replace(word.encode(), word.encode()[:-1] + b"\xff")


@pytest.mark.parametrize("of", ["Operator", "Input", "Output", "Domain", "Node", "Attribute", "Tensor"])
def test_names_that_are_not_utf8_are_defects(of):
    with pytest.raises(InvalidGraphError, match=r"b'NameOf.*xff' is not UTF-8"):
        load_graph(broken(f"NameOf{of}"))


def test_what_people_read_is_made_readable():
    assert load_graph(broken("NameOfProducer")).model.producer_name == "NameOfProduce\ufffd"
    assert load_graph(broken("NameOfEntry")).model.metadata_props == {"k": "NameOfEntr\ufffd"}
    loaded = load_graph(broken("NameOfDimension")).model.graph
    assert loaded.inputs[0].shape == (None,)
    assert load_graph(broken("NameOfGraph")).model.graph.name == "NameOfGrap\ufffd"
    assert not load_graph(broken("NameOfText")).model.graph[0].doc_string
