import math

import numpy as np
import onnx_ir as ir
import pytest

from onnxgen.foundations.cpu_facts import CpuInfo
from onnxgen.graph.costs import Cost, Roofline, estimate, host_roofline
from onnxgen.graph.costs.assumed_sizes import ASSUMED_SIZE, at_assumed_sizes
from onnxgen.graph.costs.host import operations_per_cycle
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import UNKNOWN, SequenceType, TensorType

F, I64, I32 = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.INT32


def t(*shape, dtype=F):
    return TensorType(dtype, shape)


def node(op_type, inputs, outputs, domain="", **attributes):
    return NodeSpec(domain, op_type, 17, 17, attributes, tuple(inputs), tuple(outputs))


def test_a_matrix_product_counts_a_multiply_add_twice():
    cost = estimate(node("MatMul", [t(2, 3, 8), t(8, 5)], [t(2, 3, 5)]))
    assert cost == Cost(4 * (48 + 40), 4 * 30, 2 * 30 * 8)


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_transposed_operand_sums_along_its_other_axis(transposed):
    a = t(8, 3) if transposed else t(3, 8)
    cost = estimate(node("Gemm", [a, t(8, 5)], [t(3, 5)], transA=transposed))
    assert cost.operations == 2 * 15 * 8


def test_a_convolution_multiplies_each_output_with_its_filter():
    cost = estimate(node("Conv", [t(1, 6, 9, 9), t(4, 3, 3, 2)], [t(1, 4, 7, 8)], group=2))
    assert cost.operations == 2 * (4 * 7 * 8) * (3 * 3 * 2)


def test_four_bit_elements_count_half_a_byte():
    weights = t(5, 3, dtype=ir.DataType.INT4)
    assert estimate(node("Cast", [weights], [t(5, 3)])) == Cost(8, 60, 0)


def test_views_cost_nothing():
    for op_type in ("Reshape", "Squeeze", "Identity", "Shape"):
        assert estimate(node(op_type, [t("n", 4)], [UNKNOWN])) == Cost(0, 0, 0)


def test_a_lookup_reads_as_much_as_it_writes():
    cost = estimate(node("Gather", [t(50_000, 8), t(3, dtype=I64)], [t(3, 8)]))
    assert cost == Cost(3 * 8 + 3 * 8 * 4, 3 * 8 * 4, 0)


@pytest.mark.parametrize("shape", [("n", 4), (None, 4)])
def test_what_the_shapes_do_not_say_is_not_known(shape):
    assert estimate(node("Add", [t(*shape), t(4)], [t(*shape)])) == Cost(None, None, None)
    assert estimate(node("Relu", [UNKNOWN], [UNKNOWN])).operations is None


def test_inputs_and_outputs_that_are_left_out_cost_nothing():
    cost = estimate(node("Clip", [t(4), None, t()], [t(4)]))
    assert cost == Cost(20, 16, 4)


def test_attention_counts_scores_and_weighted_sum():
    cost = estimate(
        node(
            "GroupQueryAttention",
            [t(1, 2, 32), t(1, 2, 16), t(1, 2, 16), t(1, 2, 4, 8), t(1, 2, 4, 8), t(1, dtype=I32), t(dtype=I32)],
            [t(1, 2, 32), t(1, 2, 6, 8), t(1, 2, 6, 8)],
            "com.microsoft", num_heads=4, kv_num_heads=2,
        )
    )  # fmt: skip
    assert cost.operations == 2 * 6 * (4 * 32 + 4 * 13)
    four_d = estimate(node("Attention", [t(1, 4, 2, 8), t(1, 4, 6, 8), t(1, 4, 6, 8)], [t(1, 4, 2, 8)]))
    assert four_d.operations == cost.operations


def test_a_quantized_product_takes_its_depth_from_the_attribute():
    inputs = [t(1, 64), t(5, 2, 16, dtype=ir.DataType.UINT8), t(10)]
    cost = estimate(node("MatMulNBits", inputs, [t(1, 5)], "com.microsoft", K=64, N=5))
    assert cost.operations == 2 * 5 * 64
    assert cost.bytes_read == 256 + 160 + 40


def test_einsum_counts_every_combination_of_indices():
    cost = estimate(node("Einsum", [t(2, 3), t(3, 4)], [t(2, 4)], equation="ij, jk -> ik"))
    assert cost.operations == 2 * 24
    assert estimate(node("Einsum", [t(2, 3)], [t(2)], equation="...i->...")).operations is None


def test_recurrent_networks_count_steps_and_directions():
    inputs = [t(5, 2, 3), t(2, 16, 3), t(2, 16, 4)]
    one = estimate(node("LSTM", [t(5, 2, 3), t(1, 16, 3), t(1, 16, 4)], [t(5, 1, 2, 4)], hidden_size=4))
    both = estimate(node("LSTM", inputs, [t(5, 2, 2, 4)], hidden_size=4, direction="bidirectional"))
    assert both.operations == 2 * one.operations > 0


def test_strange_attributes_and_ranks_leave_the_operations_unknown():
    assert estimate(node("LSTM", [t(5, 2), t(1), t(1)], [t(5)])).operations is None
    assert estimate(node("MatMul", [t(), t()], [t()])).operations is None
    assert estimate(node("GroupQueryAttention", [t(2, 2)], [t(2, 2)], "com.microsoft")).operations is None
    assert estimate(node("Conv", [t(1)], [t(1)])).operations is None


def test_the_slower_of_memory_and_arithmetic_bounds_the_time():
    roofline = Roofline(bytes_per_s=100.0, operations_per_s=1000.0, launch_s=1.0)
    assert roofline.seconds(Cost(100, 100, 10)) == 3.0
    assert roofline.seconds(Cost(0, 0, 5000)) == 6.0
    assert roofline.seconds(Cost(None, 0, 0)) is None


def test_the_hosts_roofline_is_positive_and_measured_once():
    roofline = host_roofline()
    assert host_roofline() is roofline
    assert all(
        math.isfinite(value) and value > 0
        for value in (roofline.bytes_per_s, roofline.operations_per_s, roofline.launch_s)
    )


@pytest.mark.parametrize(
    ("architecture", "features", "operations"),
    [
        ("x86_64", {"avx512f", "fma", "avx"}, 64),
        ("x86_64", {"fma", "avx"}, 32),
        ("x86_64", {"avx"}, 16),
        ("x86_64", set(), 8),
        ("arm64", {"neon"}, 16),
        ("riscv64", set(), 4),
    ],
)
def test_operations_per_cycle_follow_from_the_instruction_set(architecture, features, operations):
    cpu = CpuInfo("", "", architecture, 2, 2, features=frozenset(features))
    assert operations_per_cycle(cpu) == operations


def test_assumed_sizes_fill_in_what_only_a_run_knows():
    types = (t("n", 3, None), None, UNKNOWN, SequenceType(t("n")))
    assert at_assumed_sizes(types) == (
        t(ASSUMED_SIZE, 3, ASSUMED_SIZE), None, UNKNOWN, SequenceType(t(ASSUMED_SIZE))
    )  # fmt: skip


def test_constants_do_not_matter_to_the_estimate():
    plain = node("Add", [t(4), t(4)], [t(4)])
    known = NodeSpec("", "Add", 17, 14, {}, plain.inputs, plain.outputs, {1: np.ones(4, np.float32)})
    assert estimate(known) == estimate(plain) == Cost(32, 16, 4)
