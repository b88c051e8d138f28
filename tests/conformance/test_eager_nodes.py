"""The standard's tests of single nodes, as calls of eager functions; some of them, drawn anew each time."""

import onnx

from kernel_runs import fresh_rng
from onnxgen import eager
from onnxgen.conformance.compare import check_value
from onnxgen.conformance.exclusions import why_not_compared
from provider_cases import node_tests

SAMPLED = 250
NEEDS_MORE = {"ImageDecoder"}
"""Operators that need a package which need not be installed."""


def test_calls_give_what_the_standard_expects():
    tests = [test for test in node_tests() if test.model.graph.node[0].op_type not in NEEDS_MORE]
    for index in fresh_rng().choice(len(tests), SAMPLED, replace=False):
        test = tests[index]
        (node,) = test.model.graph.node
        opsets = {entry.domain: entry.version for entry in test.model.opset_import}
        inputs, outputs = test.data_sets[0]
        feeds = dict(zip(test.input_names, inputs, strict=True))
        call = getattr(eager.domain(node.domain, opsets[node.domain]), node.op_type)
        results = call(
            *(feeds.get(name) for name in node.input),
            outputs=len(node.output),
            **{item.name: onnx.helper.get_attribute_value(item) for item in node.attribute},
        )
        found = dict(zip(node.output, results if len(node.output) > 1 else (results,), strict=True))
        compared = why_not_compared(test.name, test.model) is None
        for port, expected in zip(test.model.graph.output, outputs, strict=True):
            where = f"{test.name}: {port.name}"
            check_value(
                found[port.name], expected, rtol=test.rtol, atol=test.atol, where=where, values=compared
            )
