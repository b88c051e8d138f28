import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import AttributeProto

from onnx_models import call, function, graph, model, node, referring, weight
from onnxgen.errors import InvalidGraphError
from onnxgen.graph.ep.from_graph import node_spec
from onnxgen.graph.loader import load_graph

IMPORTS = {"": 17, "local": 1}
X = np.array([3, -2], np.float32)
LEAKY = referring(node("LeakyRelu", "a", "b"), "alpha", "slope", AttributeProto.FLOAT)


def calling(nodes, *functions, opsets=IMPORTS, **options):
    return model(nodes, opsets=opsets, functions=functions, **options)


def flat_result(made):
    """What the inlined model computes, by ONNX Runtime; it has no functions left."""
    loaded = load_graph(made).model
    assert not loaded.functions and not any(n.domain == "local" for n in loaded.graph.all_nodes())
    return run(ir.to_proto(loaded))


def run(proto):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": X})


F = function("f", [node("Neg", "a", "t"), node("Mul", "t t", "b")])
TWICE = function("twice", [call("f", "a", "t"), call("f", "t", "b")])
CHOICE = function(
    "choice",
    [
        node("ReduceMax", "a", "m", keepdims=0),
        node("Cast", "m", "c", to=9),
        node(
            "If",
            "c",
            "b",
            then_branch=graph([call("f", "a", "t"), node("Add", "t w", "q")], "", "q", [weight("w", 10, 20)]),
            else_branch=graph([node("Neg", "a", "t")], "", "t"),
        ),
    ],
)

MODELS = {
    "one call": calling([call("f")], F),
    "calls of calls": calling([call("twice")], F, TWICE),
    "the same names inside and outside": calling(
        [node("Abs", "x", "t"), call("f", "t", "a"), call("f", "a", "b"), node("Add", "b t", "y")], F
    ),
    "graphs inside": calling([call("choice", "x", "z"), call("choice", "z", "y")], F, CHOICE),
    "calls in inner graphs": calling(
        [
            node("ReduceMax", "x", "m", keepdims=0),
            node("Cast", "m", "c", to=9),
            node("If", "c", "y", then_branch=graph([call("twice", "x", "q")], "", "q"), else_branch=graph([call("f", "x", "q")], "", "q")),
        ],
        F,
        TWICE,
    ),
    "an attribute": calling([call("g", slope=0.5)], function("g", [LEAKY], attributes=["slope"])),
    "an attribute left out": calling([call("g")], function("g", [LEAKY], attributes=["slope"])),
    "an attribute's default": calling([call("g")], function("g", [LEAKY], defaults={"slope": 0.25})),
    "an attribute handed on": calling(
        [call("h", s=0.125)],
        function("h", [referring(call("g", "a", "b"), "slope", "s", AttributeProto.FLOAT)], attributes=["s"]),
        function("g", [LEAKY], defaults={"slope": 0.25}),
    ),
    "an input left out": calling([call("g", "x")], function("g", [node("Clip", "a o", "b")], "a o")),
    "an input left out in between": calling(
        [call("g", "x _ w")], function("g", [node("Clip", "a lo hi", "b")], "a lo hi"), initializers=[weight("w", 1)]
    ),
    "an attribute nobody knows": calling([call("f", nonsense=1)], F),
    "unsorted nodes": calling([node("Neg", "z", "y"), call("f", "x", "z")], F),
    "an opset of the same meaning": calling([call("g")], function("g", [node("Neg", "a", "b")], opsets={"": 16})),
}  # fmt: skip
MODELS["an input left out in between"].graph.initializer[0].ClearField("dims")


@pytest.mark.parametrize("kind", MODELS)
def test_written_out_functions_compute_the_same(kind):
    for got, want in zip(flat_result(MODELS[kind]), run(MODELS[kind]), strict=True):
        np.testing.assert_array_equal(got, want)


def test_an_output_that_nobody_asks_for_and_one_given_twice():
    several = function("s", [node("Neg", "a", "t"), node("Abs", "a", "u")], outputs="t u t a")
    (y, z, again), (only,) = (
        flat_result(
            calling([call("s", "x", "y _ z w"), node("Identity", "w", "again")], several, outputs="y z again")
        ),
        flat_result(calling([call("s", "x", "y")], several)),
    )
    np.testing.assert_array_equal([y, z, again, only], [-X, -X, X, -X])


def test_attributes_that_are_graphs_see_the_caller():
    choice = node("If", "a", "b")
    for branch in ("then_branch", "else_branch"):
        referring(choice, branch, "body", AttributeProto.GRAPH)
    made = calling(
        [
            node("ReduceMax", "x", "m", keepdims=0),
            node("Cast", "m", "c", to=9),
            call("g", "c", body=graph([node("Neg", "x", "q")], "", "q")),
        ],
        function("g", [choice], attributes=["body"]),
    )
    np.testing.assert_array_equal(flat_result(made)[0], -X)


def test_overloads_are_functions_of_their_own():
    one, other = call("g", "x", "z"), call("g", "z", "y")
    other.overload = "other"
    made = calling(
        [one, other],
        function("g", [node("Neg", "a", "b")]),
        function("g", [node("Exp", "a", "b")], overload="other"),
    )
    np.testing.assert_allclose(flat_result(made)[0], np.exp(-X), rtol=1e-6)


def test_a_node_keeps_the_opset_of_its_function():
    made = calling([call("g")], function("g", [node("Softmax", "a", "b", axis=0)], opsets={"": 11}))
    loaded = load_graph(made).model
    (softmax,) = loaded.graph
    spec = node_spec(softmax, loaded.graph.opset_imports)
    assert (spec.opset, spec.since_version) == (11, 11) and not softmax.metadata_props
    same = calling([call("g")], function("g", [node("Neg", "a", "b")], opsets={"": 16}))
    assert load_graph(same).model.graph[0].version is None


def test_domains_that_only_functions_import_are_imported():
    g = function("g", [node("Gelu", "a", "b", domain="com.microsoft")], opsets={"com.microsoft": 1})
    assert load_graph(calling([call("g")], g)).model.graph.opset_imports["com.microsoft"] == 1


def test_functions_that_a_provider_runs_stay_operators():
    loaded = load_graph(
        calling([call("twice")], F, TWICE), keep_function=lambda domain, name: name == "f"
    ).model
    assert [(n.domain, n.op_type) for n in loaded.graph] == [("local", "f"), ("local", "f")]


def test_a_function_of_the_name_of_an_operator_does_not_replace_it():
    shadow = function("Relu", [node("Neg", "a", "b")], domain="", opsets={"": 17})
    loaded = load_graph(calling([node("Relu", "x", "y")], shadow)).model
    assert [n.op_type for n in loaded.graph] == ["Relu"]


@pytest.mark.parametrize(
    ("made", "finding"),
    [
        (calling([call("f")], function("f", [call("f", "a", "b")])), "functions call themselves: local.f -> local.f"),
        (calling([call("f")], function("f", [call("g", "a", "b")]), function("g", [call("f", "a", "b")])), "call themselves"),
        (calling([call("f", "x x")], F), "local.f node 'y' has 2 inputs, the function of that name has 1"),
        (calling([call("f", "x", "y z")], F), "has 2 outputs, the function of that name has 1"),
        (calling([call("f")], F, F), "function local.f is defined twice"),
        (calling([call("f")], function("f", [node("Neg", "a", "b")], opsets={"local": 1})), "uses domain 'ai.onnx' and does not import it"),
        (calling([referring(node("LeakyRelu", "x", "y"), "alpha", "slope", 1)]), "refers to attribute 'slope' of a function, outside of one"),
        (calling([call("f", "")], F), "leaves out 'X' of its inputs"),
    ],
    ids=range(8),
)  # fmt: skip
def test_what_is_wrong_with_functions_is_told(made, finding):
    with pytest.raises(InvalidGraphError) as caught:
        load_graph(made)
    assert finding in str(caught.value)


def test_calls_of_calls_cannot_grow_without_bound():
    functions = [function("f0", [node("Neg", "a", "b")])]
    for n in range(1, 40):
        functions.append(function(f"f{n}", [call(f"f{n - 1}", "a", "t"), call(f"f{n - 1}", "t", "b")]))
    with pytest.raises(InvalidGraphError, match=r"written out, would be \d+ nodes"):
        load_graph(calling([call("f39")], *functions))


def test_many_calls_are_written_out_quickly():
    nodes = [call("f", f"v{n}", f"v{n + 1}") for n in range(2000)]
    nodes[0].input[0] = "x"
    loaded = load_graph(calling(nodes, F, outputs="v2000")).model
    assert len(loaded.graph) == 4000
