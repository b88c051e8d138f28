import numpy as np
import onnx_ir as ir
import pytest

from onnxgen.graph.costs import Cost
from onnxgen.graph.cpu.provider import CpuProvider
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import Claim, Decline, ExecutionProvider
from onnxgen.graph.ir.types import UNKNOWN, TensorType


def relu(shape):
    value = UNKNOWN if shape is None else TensorType(ir.DataType.FLOAT, shape)
    return NodeSpec("", "Relu", 17, 14, {}, (value,), (value,))


def provider_of(*candidates):
    """A provider whose kernels for Relu are these: name, reason to decline, seconds."""
    table = KernelTable()
    for name, reason, seconds in candidates:
        table.operator("Relu", 14, name=name, why_not=lambda node, reason=reason: reason, seconds=seconds)(
            lambda node, name=name: Kernel(run=lambda x: np.full(1, len(name)))
        )
    provider = CpuProvider()
    provider.table = table
    return provider


def seconds(value):
    return lambda node, cost, roofline: value


def test_it_is_an_execution_provider():
    assert isinstance(CpuProvider(), ExecutionProvider)


def test_the_candidate_with_the_least_time_is_claimed():
    provider = provider_of(
        ("slow", None, seconds(2.0)), ("fast", None, seconds(1.0)), ("late", None, seconds(3.0))
    )
    claim = provider.claim(relu((2, 3)))
    assert claim == Claim("fast", Cost(24, 24, 6))
    assert provider.compile(relu((2, 3)), claim).run(None) == len("fast")


def test_candidates_that_cannot_run_the_node_do_not_count():
    provider = provider_of(("fast", "has no time", seconds(0.0)), ("slow", None, seconds(1.0)))
    assert provider.claim(relu((2,))).kernel == "slow"


def test_of_equal_candidates_the_first_is_claimed():
    provider = provider_of(("first", None, seconds(1.0)), ("second", None, seconds(1.0)))
    assert provider.claim(relu((2,))).kernel == "first"
    assert provider_of(("a", None, None), ("b", None, None)).claim(relu((2,))).kernel == "a"


def test_the_first_is_claimed_where_a_time_is_not_known():
    provider = provider_of(("first", None, seconds(None)), ("second", None, seconds(1.0)))
    assert provider.claim(relu((2,))).kernel == "first"


def test_the_general_roofline_stands_in_for_a_candidate_without_estimate():
    provider = provider_of(("plain", None, None), ("slower", None, lambda n, c, r: r.seconds(c) * 2))
    assert provider.claim(relu((2,))).kernel == "plain"
    provider = provider_of(("slower", None, lambda n, c, r: r.seconds(c) * 2), ("plain", None, None))
    assert provider.claim(relu((2,))).kernel == "plain"


def test_symbols_are_compared_at_an_assumed_size_and_cost_nothing_known():
    seen = []

    def by_size(node, cost, roofline):
        seen.append((node.inputs[0].shape, cost))
        return float(cost.operations)

    provider = provider_of(("by size", None, by_size), ("constant", None, seconds(1.0)))
    claim = provider.claim(relu(("n", 3)))
    assert claim == Claim("constant", Cost(None, None, None))
    assert seen == [((64, 3), Cost(768, 768, 192))]


def test_a_node_that_no_candidate_runs_is_declined_with_every_reason():
    provider = provider_of(("a", "is shy", None), ("b", "is busy", None))
    assert provider.claim(relu((2,))) == Decline("a: is shy; b: is busy")


def test_unknown_operators_and_versions_are_declined():
    provider = provider_of(("a", None, None))
    assert provider.claim(NodeSpec("", "Gelu", 20, 20, {}, (), ())) == Decline("has no kernel for it")
    assert provider.claim(NodeSpec("", "Relu", 5, 1, {}, (), ())) == Decline("has versions 14 of it")


@pytest.mark.parametrize("num_bytes", [1, 63, 64, 1000])
def test_memory_begins_at_a_multiple_of_64(num_bytes):
    memory = CpuProvider().allocate(num_bytes)
    assert memory.nbytes == num_bytes
    assert memory.dtype == np.uint8
    assert memory.ctypes.data % 64 == 0
