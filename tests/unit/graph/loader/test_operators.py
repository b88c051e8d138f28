import onnx
import pytest

from onnx_models import graph, model, node, weight
from onnxgen.errors import InvalidGraphError
from onnxgen.graph.loader import load_graph


def twice_given():
    made = node("LeakyRelu", "x", "y", alpha=0.5)
    made.attribute.append(onnx.helper.make_attribute("alpha", 0.5))
    return made


def without_kind(**attributes):
    made = node("LeakyRelu", "x", "y", **attributes)
    made.attribute[0].ClearField("type")
    return made


def without_tensor():
    made = node("Constant", "", "y")
    made.attribute.add(name="value", type=onnx.AttributeProto.TENSOR)
    return made


WRONG = {
    "too many inputs": (node("Relu", "x x", "y"), "Relu node 'y' has 2 inputs, expected 1"),
    "too few inputs": (node("Add", "x", "y"), "Add node 'y' has 1 inputs, expected 2"),
    "an input left out": (node("Add", "x _", "y"), "leaves out 'B' of its inputs"),
    "too many outputs": (node("Relu", "x", "y z"), "has 2 outputs, expected 1"),
    "no outputs": (node("Relu", "x", ""), "Relu node without a name has 0 outputs"),
    "an output left out": (node("Relu", "x", "_"), "leaves out 'Y' of its outputs"),
    "too few of several": (node("Concat", "", "y", axis=0), "has 0 inputs, expected 1 or more"),
    "unknown attribute": (node("Relu", "x", "y", foo=1), "has an attribute 'foo', which Relu-14 does not"),
    "misspelled attribute": (node("LeakyRelu", "x", "y", alhpa=0.1), "did you mean 'alpha'?"),
    "another kind": (node("LeakyRelu", "x", "y", alpha=1), "'alpha' of LeakyRelu node 'y' is of kind INT, expected FLOAT"),
    "attribute twice": (twice_given(), "attribute 'alpha' of LeakyRelu node 'y' is given twice"),
    "attribute missing": (node("Cast", "x", "y"), "has no attribute 'to', which it must have"),
    "attribute without a kind": (without_kind(alpha=0.5), "'alpha' of LeakyRelu node 'y' has no kind"),
    "attribute without content": (without_tensor(), "is of kind TENSOR but holds none"),
    "no element type": (node("Cast", "x", "y", to=77), "'to' of Cast node 'y' is 77, which is no element type"),
    "element type left open": (node("Cast", "x", "y", to=0), "'to' of Cast node 'y' is 0, which is no element type"),
    "newer operator": (node("Gelu", "x", "y"), "Gelu node 'y' is an operator that ai.onnx has since a version after 17"),
    "older operator": (node("Upsample", "x s", "y"), "is an operator that ai.onnx dropped in version 10"),
    "constant without value": (node("Constant", "", "y"), "Constant node 'y' has 0 values, expected 1"),
    "constant of two": (node("Constant", "", "y", value_int=1, value_float=1.0), "has 2 values, expected 1"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_what_does_not_fit_the_operator_is_told(kind):
    wrong, finding = WRONG[kind]
    outputs = "y" if "y" in wrong.output else "x"
    with pytest.raises(InvalidGraphError) as caught:
        load_graph(model([wrong], outputs=outputs, initializers=[weight("s")]))
    assert finding in str(caught.value)


def test_operators_in_inner_graphs_are_checked():
    inner = graph([node("Relu", "x x", "q")], "", "q")
    condition = [node("ReduceMax", "x", "m", keepdims=0), node("Cast", "m", "c", to=9)]
    with pytest.raises(InvalidGraphError, match="Relu node 'q' has 2 inputs"):
        load_graph(model([*condition, node("If", "c", "y", then_branch=inner, else_branch=inner)]))


@pytest.mark.parametrize(
    "right",
    [
        node("Nobody", "x x x", "y z", domain="of.somebody", foo=1),
        node("Nobody", "x", "y"),
        node("SkipLayerNormalization", "x", "y", domain="com.microsoft"),
        node("Clip", "x", "y"),
        node("Dropout", "x", "y _"),
    ],
    ids=range(5),
)
def test_operators_of_others_and_optional_values_pass(right):
    load_graph(model([right]))


def test_operators_that_onnx_runtime_has_before_the_standard_pass():
    early = node("LayerNormalization", "x s", "y")
    load_graph(model([early], initializers=[weight("s")], opsets={"": 13}))


LOOP = [
    node("Constant", "", "n", value_int=2),
    node("Constant", "", "t", value_int=1),
    node("Cast", "t", "c", to=9),
]


@pytest.mark.parametrize(
    ("wrong", "finding"),
    [
        (node("If", "c", "y", then_branch=graph([], "a", "a"), else_branch=graph([node("Relu", "x", "q")], "", "q")),
         "then_branch of If node 'y' has 1 inputs, the node expects 0"),
        (node("If", "c", "y z", then_branch=graph([node("Relu", "x", "q")], "", "q"), else_branch=graph([node("Relu", "x", "q")], "", "q")),
         "else_branch of If node 'y' has 1 outputs, the node expects 2"),
        (node("Loop", "n c x", "y", body=graph([], "i c2 a b", "c2 a")), "body of Loop node 'y' has 4 inputs, the node expects 3"),
        (node("Loop", "n c x", "y", body=graph([], "i c2 a", "c2 a a")), "has 3 outputs, the node expects 2"),
        (node("Scan", "x", "y", num_scan_inputs=1, body=graph([], "a b", "a")), "body of Scan node 'y' has 2 inputs, the node expects 1"),
    ],
    ids=range(5),
)  # fmt: skip
def test_inner_graphs_have_what_their_node_hands_over(wrong, finding):
    with pytest.raises(InvalidGraphError) as caught:
        load_graph(model([*LOOP, wrong]))
    assert finding in str(caught.value)
