import onnx_ir as ir
import pytest

from onnxgen.errors import UnsupportedOperatorError
from onnxgen.graph.costs import Cost, Roofline
from onnxgen.graph.ep.provider import Claim, Decline
from onnxgen.graph.placement import place
from onnxgen.graph.shapes import infer_shapes

ROOFLINE = Roofline(bytes_per_s=1.0, operations_per_s=1.0, launch_s=0.5)


class Picky:
    """A provider of some operators."""

    device = "cpu"

    def __init__(self, name, *operators, cost=None):
        self.name, self.operators, self.cost, self.asked = name, operators, cost, []

    def claim(self, node):
        self.asked.append(node.op_type)
        if node.op_type in self.operators:
            return Claim(f"{self.name}/{node.op_type.lower()}", self.cost)
        return Decline(f"does not like {node.op_type}")


def placed(graph, *providers, domains=""):
    model = ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 17{domains}]>\n{graph}')
    infer_shapes(model)
    placement = place(model.graph, providers, opsets=model.opset_imports, roofline=ROOFLINE)
    return model, placement


CHAIN = "g (float[2, 3] x) => (y) { h = Relu(x)  y = Exp(h) }"


def test_the_first_provider_that_claims_a_node_runs_it():
    first, second = Picky("first", "Exp"), Picky("second", "Exp", "Relu")
    model, placement = placed(CHAIN, first, second)
    relu, exp = model.graph
    assert placement.of(relu).provider is second
    assert placement.of(relu).claim.kernel == "second/relu"
    assert placement.of(relu).declined == (("first", "does not like Relu"),)
    assert placement.of(exp).provider is first
    assert placement.of(exp).declined == ()
    assert second.asked == ["Relu"]


def test_providers_are_those_that_run_something():
    first, idle, last = Picky("first", "Relu"), Picky("idle"), Picky("last", "Exp")
    _, placement = placed(CHAIN, first, idle, last)
    assert placement.providers() == (first, last)


def test_costs_are_the_claims_or_the_models():
    model, placement = placed(CHAIN, Picky("own", "Relu", cost=Cost(1, 2, 3)), Picky("other", "Exp"))
    relu, exp = model.graph
    assert placement.of(relu).cost == Cost(1, 2, 3)
    assert placement.of(relu).seconds == 0.5 + 3
    assert placement.of(exp).cost == Cost(24, 24, 60)
    assert placement.of(exp).seconds == 0.5 + 60


def test_times_of_unknown_sizes_are_not_known():
    model, placement = placed("g (float[n] x) => (y) { y = Relu(x) }", Picky("p", "Relu"))
    assert placement.of(model.graph[0]).seconds is None


NESTED = """g (float[2] x, bool c) => (y) { y = If(c) <
    then_branch = t () => (a) { a = Relu(x) },
    else_branch = e () => (b) { b = Loop(, c) < body = l (int64 i, bool d) => (d2, s) { d2 = Identity(d) s = Exp(x) }> }> }"""


def test_control_flow_is_the_executors_and_what_is_inside_is_placed():
    model, placement = placed(
        NESTED.replace("b = Loop(, c)", "n = Shape(x) m = Squeeze(n) b = Loop(m, c)"),
        Picky("p", "Relu", "Exp", "Identity", "Shape", "Squeeze"),
    )
    branch = model.graph[0]
    assert placement.of(branch).provider is None
    assert placement.of(branch).provider_name == "executor"
    graphs = {row.operator.split("-")[0]: row.graph for row in placement.table()}
    assert graphs["If"] == ""
    assert graphs["Relu"] == "<y>.then_branch"
    assert graphs["Exp"] == "<y>.else_branch/<b>.body"
    assert len(placement) == 7


def test_every_node_without_a_provider_is_named_with_every_reason():
    with pytest.raises(UnsupportedOperatorError) as failure:
        placed(
            "g (float[2] x) => (y) { h = Relu(x)  i = Exp(h)  y = other.Strange(i) }",
            Picky("first"), Picky("second", "Exp"), domains=', "other" : 3',
        )  # fmt: skip
    message = str(failure.value)
    assert "2 of 3 nodes" in message
    assert "\n  Relu-14 <h>\n    first: does not like Relu\n    second: does not like Relu\n" in message
    assert "\n  other.Strange-1 <y>\n" in message
    assert "Exp" not in message


def test_without_providers_nothing_runs():
    with pytest.raises(UnsupportedOperatorError, match="asked: none"):
        placed(CHAIN)


def test_a_refused_node_is_named_once_and_providers_that_were_asked_are_not_recommended():
    with pytest.raises(UnsupportedOperatorError) as failure:
        placed("g (float[2] x) => (y) { [relu] y = Relu(x) }", Picky("reference"))
    assert "give the session 'ort' or a provider of your own" in str(failure.value)
    assert str(failure.value).count("'relu'") == 1


def test_rows_say_what_the_assignments_say():
    _, placement = placed(CHAIN, Picky("picky", "Exp"), Picky("all", "Relu", "Exp"))
    relu, exp = placement.table()
    assert (relu.node, relu.operator, relu.provider, relu.kernel) == ("<h>", "Relu-14", "all", "all/relu")
    assert relu.declined == {"picky": "does not like Relu"}
    assert (exp.bytes, exp.operations, exp.seconds) == (48, 60, 60.5)
