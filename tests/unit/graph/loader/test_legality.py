import onnxruntime
import pytest

from onnx_models import call, floats, function, graph, model, node, scalar, weight
from onnxgen.errors import InvalidGraphError
from onnxgen.graph.loader import load_graph

CONDITION = [node("ReduceMax", "x", "m", keepdims=0), node("Cast", "m", "c", to=9)]


def branches(inner):
    return [*CONDITION, node("If", "c", "y", then_branch=inner, else_branch=inner)]


def loop(inner):
    return [node("Constant", "", "n", value_int=2), node("Loop", "n _ x", "y", body=inner)]


def body(carried, result, nodes=()):
    made = graph([node("Identity", "cond", "more"), *nodes], "", "", name="body")
    made.input.extend(bodies_inputs(carried))
    made.output.extend([condition("more"), floats(result)])
    return made


def condition(name):
    value = floats(name, ())
    value.type.tensor_type.elem_type = 9
    return value


def bodies_inputs(carried):
    iteration = floats("i", ())
    iteration.type.tensor_type.elem_type = 7
    return [iteration, condition("cond"), floats(carried)]


IMPORTS = {"": 17, "local": 1}
WRONG = {
    "nothing defines it": (
        model([node("Add", "x q", "y")]),
        ["Add node 'y' uses 'q', which nothing defines"],
    ),
    "two outputs": (
        model([node("Neg", "x", "z"), node("Relu", "x", "z"), node("Relu", "z", "y")]),
        ["'z' is defined twice", "Relu node 'z'"],
    ),
    "input and output": (
        model([node("Neg", "x", "x"), node("Relu", "x", "y")]),
        ["'x' is defined twice: as an input and"],
    ),
    "initializer and output": (
        model([node("Neg", "x", "w"), node("Relu", "w", "y")], initializers=[weight("w")]),
        ["as an initializer and"],
    ),
    "two inputs": (
        model([node("Relu", "x", "y")], inputs="x x"),
        ["'x' is defined twice: as an input and as an input"],
    ),
    "no producer": (model([node("Relu", "x", "y")], outputs="y q"), ["output 'q' is produced by no node"]),
    "empty output": (model([node("Relu", "x", "y")], outputs="y _"), ["output '' is produced by no node"]),
    "circle": (
        model([node("Add", "z x", "y"), node("Neg", "y", "z")]),
        ["wait for each other", "Add node 'y' -> Neg node 'z'"],
    ),
    "circle through an inner graph": (
        model(branches(graph([node("Relu", "y", "q")], "", "q"))),
        ["wait for each other: If node 'y' -> If"],
    ),
    "nothing defines it inside": (
        model(branches(graph([node("Relu", "nope", "q")], "", "q", name="b"))),
        ["of graph 'b' in If node 'y' uses 'nope'"],
    ),
    "outer value as inner output": (
        model(branches(graph([], "", "x"))),
        ["output 'x' of graph 'g' in If node 'y' is a value of an outer graph", "Identity"],
    ),
    "inner output hides an outer one": (
        model(branches(graph([node("Neg", "x", "m"), node("Relu", "m", "q")], "", "q"))),
        ["defines 'm', which an outer graph has as an output of ReduceMax"],
    ),
    "inner output hides an outer input": (
        model(loop(body("a", "x", [node("Neg", "a", "x")]))),
        ["defines 'x', which an outer graph has as an input"],
    ),
    "a function does not see the graph": (
        model([call("f")], opsets=IMPORTS, functions=[function("f", [node("Neg", "x", "b")])]),
        ["of function 'f' uses 'x'"],
    ),
    "a function without its output": (
        model([call("f")], opsets=IMPORTS, functions=[function("f", [node("Neg", "a", "q")])]),
        ["output 'b' of function 'f' is produced by no node"],
    ),
    "initializer of another shape than its input": (
        model([node("Add", "x w", "y")], inputs="x w", initializers=[weight("w", 1, 2, 3)]),
        ["initializer 'w' has shape [3], the input of that name [2]"],
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_told_by_name(kind):
    wrong, findings = WRONG[kind]
    with pytest.raises(InvalidGraphError) as caught:
        load_graph(wrong)
    for finding in findings:
        assert finding in str(caught.value)
    assert not onnx_runtime_accepts(wrong)


def onnx_runtime_accepts(made):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001 - its errors have classes of their own, by kind of failure
        return False
    return True


def test_an_initializer_of_another_type_than_its_input():
    made = model([node("Add", "x w", "y")], inputs="x w", initializers=[weight("w")])
    made.graph.input[1].type.tensor_type.elem_type = 6
    with pytest.raises(
        InvalidGraphError, match="initializer 'w' has element type 1, the input of that name 6"
    ):
        load_graph(made)


def test_an_input_without_a_type():
    made = model([node("Relu", "x", "y")])
    made.graph.input[0].ClearField("type")
    with pytest.raises(InvalidGraphError, match="input 'x' has no type"):
        load_graph(made)


def test_all_defects_are_told_at_once():
    with pytest.raises(InvalidGraphError, match="2 defects") as caught:
        load_graph(model([node("Add", "x q", "y"), node("Add", "x r", "z")]))
    assert "'q'" in str(caught.value) and "'r'" in str(caught.value)


def test_a_long_list_of_defects_is_cut():
    with pytest.raises(InvalidGraphError, match=r"100 defects[^$]*and 80 more") as caught:
        load_graph(model([node("Add", f"x q{n}", f"y{n}") for n in range(100)], outputs="y0"))
    assert str(caught.value).count("\n") == 21


RIGHT = {
    "unsorted nodes": model([node("Relu", "z", "y"), node("Neg", "x", "z")]),
    "the same output twice": model([node("Relu", "x", "y")], outputs="y y"),
    "an input as output": model([], outputs="x"),
    "an initializer as output": model([node("Relu", "x", "y")], outputs="y w", initializers=[weight("w")]),
    "an input without a name": model([node("Relu", "x", "y")], inputs="x _"),
    "an input left out": model([node("Clip", "x _ w", "y")], initializers=[scalar("w", 1)]),
    "an outer value made later": model(
        [*branches(graph([node("Relu", "later", "q")], "", "q")), node("Neg", "x", "later")]
    ),
    "an inner output of its node's name": model(branches(graph([node("Neg", "x", "y")], "", "y"))),
    "an inner initializer as output": model(branches(graph([], "", "w", [weight("w")]))),
    "an inner initializer that hides an outer one": model(
        branches(graph([node("Neg", "w", "q")], "", "q", [weight("w")])), initializers=[weight("w", 7, 7)]
    ),
    "an inner input that hides an outer one": model(loop(body("x", "b", [node("Neg", "x", "b")]))),
    "an outer value": model([node("Neg", "x", "z"), *branches(graph([node("Relu", "z", "q")], "", "q"))]),
    "an illegal function that nobody calls": model(
        [node("Relu", "x", "y")], opsets=IMPORTS, functions=[function("f", [node("Neg", "x", "b")])]
    ),
}


@pytest.mark.parametrize("kind", RIGHT)
def test_what_onnx_runtime_accepts_loads(kind):
    load_graph(RIGHT[kind])
    assert onnx_runtime_accepts(RIGHT[kind])


def test_nodes_come_out_in_an_order_in_which_they_can_run():
    loaded = load_graph(model([node("Relu", "z", "y"), node("Neg", "x", "z")]))
    assert [n.op_type for n in loaded.model.graph] == ["Neg", "Relu"]


def test_the_last_of_several_initializers_of_a_name_counts(caplog):
    made = model([node("Add", "x w", "y")], initializers=[weight("w", 1, 2), weight("w", 3, 4)])
    loaded = load_graph(made)
    assert loaded.model.graph.initializers["w"].const_value.numpy().tolist() == [3, 4]
    assert "'w' is given more than once" in caplog.text


def test_names_are_unique_in_the_whole_loaded_model():
    inner = graph([node("Neg", "w", "q")], "", "q", [weight("w")])
    made = model(branches(inner), initializers=[weight("w", 7, 7)], outputs="y w")
    loaded = load_graph(made).model
    names = [
        value.name for g in (loaded.graph, *loaded.graph.subgraphs()) for value in g.initializers.values()
    ]
    assert len(names) == 3 == len(set(names)) and "w" in loaded.graph.initializers


def test_a_graph_of_many_nodes_and_inner_graphs_is_checked_quickly():
    nodes = [*CONDITION]
    previous = "x"
    for index in range(1500):
        inner = graph([node("Relu", previous, f"q{index}")], "", f"q{index}")
        nodes.append(node("If", "c", f"v{index}", then_branch=inner, else_branch=inner))
        previous = f"v{index}"
    load_graph(model(nodes, outputs=previous))
