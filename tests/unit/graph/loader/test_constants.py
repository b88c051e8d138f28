import numpy as np
import pytest

from onnx_models import graph, model, node, weight
from onnxgen.graph.ir.attributes import tensor_array
from onnxgen.graph.loader import load_graph


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"value_float": 1.5}, np.array(1.5, np.float32)),
        ({"value_floats": [1.5, 2.0]}, np.array([1.5, 2], np.float32)),
        ({"value_int": 3}, np.array(3)),
        ({"value_ints": [3, 4]}, np.array([3, 4])),
        ({"value_string": "ä"}, np.array("ä", object)),
        ({"value_strings": ["a", "b"]}, np.array(["a", "b"], object)),
        ({"value": weight("t", 5, 6)}, np.array([5, 6], np.float32)),
    ],
    ids=range(7),
)
def test_every_kind_of_value(value, expected):
    made = load_graph(model([node("Constant", "", "y", **value)])).model
    array = tensor_array(made.graph.initializers["y"].const_value)
    assert (
        array.dtype == expected.dtype
        and array.shape == expected.shape
        and array.tolist() == expected.tolist()
    )
    assert len(made.graph) == 0
    (output,) = made.graph.outputs
    assert output is made.graph.initializers["y"] and output.shape == expected.shape


def test_values_of_newer_opsets_pass_in_old_ones_as_in_onnx_runtime():
    load_graph(model([node("Constant", "", "y", value_floats=[1.0])], opsets={"": 11}))


def test_constants_of_inner_graphs_and_what_they_are_computed_from():
    inner = graph([node("Constant", "", "k", value_floats=[1.0, 2.0]), node("Add", "x k", "q")], "", "q")
    only = graph([node("Constant", "", "q", value_floats=[1.0, 2.0])], "", "q")
    condition = [node("ReduceMax", "x", "m", keepdims=0), node("Cast", "m", "c", to=9)]
    made = load_graph(model([*condition, node("If", "c", "y", then_branch=inner, else_branch=only)])).model
    assert not any(n.op_type == "Constant" for n in made.graph.all_nodes())
    assert sorted(len(g.initializers) for g in made.graph.subgraphs()) == [1, 1]


def test_constants_of_shape_stay():
    nodes = [node("Constant", "", "s", value_ints=[2]), node("ConstantOfShape", "s", "y")]
    assert [n.op_type for n in load_graph(model(nodes)).model.graph] == ["ConstantOfShape"]


def test_others_may_call_their_operators_constant():
    made = load_graph(model([node("Constant", "", "y", domain="of.somebody")])).model
    assert [n.domain for n in made.graph] == ["of.somebody"]
