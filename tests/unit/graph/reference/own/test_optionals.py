import numpy as np
import onnx.parser
import pytest

from graph_running import all_outputs, compiled
from kernel_runs import node_spec
from onnxgen.graph.ep.provider import Claim
from onnxgen.graph.reference.provider import ReferenceProvider

REFERENCE = ReferenceProvider()
X = np.ones(3, np.float32)


def run(op_type, *inputs, opset):
    node = node_spec(op_type, *inputs, opset=opset)
    claim = REFERENCE.claim(node)
    assert isinstance(claim, Claim), claim
    return REFERENCE.compile(node, claim).run(*inputs)


@pytest.mark.parametrize("opset", [15, 28])
def test_an_optional_is_the_value_or_none(opset):
    value = run("Optional", X, opset=opset)
    assert value.tolist() == X.tolist() and not np.may_share_memory(value, X)
    assert [item.tolist() for item in run("Optional", [X, X[:1]], opset=opset)] == [[1, 1, 1], [1]]
    assert run("Optional", opset=opset) is None


@pytest.mark.parametrize("condition", [True, False])
def test_branches_give_optionals(condition):
    executable = compiled(
        onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21]>
        g (bool c, float[N] x) => (bool has) {
            o = If (c) <
                then_branch = t () => (optional(float[N]) p) { p = Optional (x) },
                else_branch = e () => (optional(float[N]) q) { q = Optional <type = float[N]> () }
            >
            has = OptionalHasElement (o)
        }"""),
        [REFERENCE],
    )
    assert all_outputs(executable, {"c": np.array(condition), "x": X})[0].tolist() is condition
