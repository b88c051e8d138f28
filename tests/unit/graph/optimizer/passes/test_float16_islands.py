import onnx_ir as ir

from graph_passes import check
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import TensorType
from onnxgen.graph.optimizer.passes.casts import CASTS
from onnxgen.graph.optimizer.passes.float16_islands import FLOAT16_ISLANDS


def no_half_sums(node: NodeSpec) -> bool:
    """A session that runs no Add and no LayerNormalization of half floats."""
    half = any(isinstance(t, TensorType) and t.dtype is ir.DataType.FLOAT16 for t in node.inputs)
    return not (half and node.op_type in ("Add", "LayerNormalization"))


def test_a_node_nobody_runs_is_widened():
    check(
        "g (float16[N] x, float16[N] z) => (float16[N] y) { a = Neg(x) y = Add(a, z) }",
        FLOAT16_ISLANDS,
        [
            "t0 = Neg(x)",
            "t1 = Cast(t0) {to=1}",
            "t2 = Cast(z) {to=1}",
            "t3 = Add(t1, t2)",
            "y = Cast(t3) {to=10}",
        ],
        can_run=no_half_sums,
        sizes={"N": 5},
    )


def test_the_rounding_between_two_islands_stays():
    check(
        "g (float16[N] x) => (float16[N] y) { a = Add(x, x) y = Add(a, a) }",
        [FLOAT16_ISLANDS, CASTS],
        [
            "t0 = Cast(x) {to=1}",
            "t1 = Cast(x) {to=1}",
            "t2 = Add(t0, t1)",
            "t3 = Cast(t2) {to=10}",
            "t4 = Cast(t3) {to=1}",
            "t5 = Cast(t3) {to=1}",
            "t6 = Add(t4, t5)",
            "y = Cast(t6) {to=10}",
        ],
        can_run=no_half_sums,
    )


def test_what_somebody_runs_stays():
    check("g (float16[N] x) => (float16[N] y) { y = Add(x, x) }", FLOAT16_ISLANDS, None)


def test_what_nobody_runs_in_float_either_stays():
    check(
        "g (float16[N] x) => (float16[N] y) { y = Add(x, x) }",
        FLOAT16_ISLANDS,
        None,
        can_run=lambda node: node.op_type != "Add",
    )


def test_integers_stay():
    check(
        "g (int64[N] x) => (int64[N] y) { y = Add(x, x) }",
        FLOAT16_ISLANDS,
        None,
        can_run=lambda node: False,
    )
