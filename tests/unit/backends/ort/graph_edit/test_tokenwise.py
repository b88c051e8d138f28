import onnx_ir as ir
import pytest

from onnxgen.backends.ort.graph_edit.surgery import constant_values
from onnxgen.backends.ort.graph_edit.tokenwise import constant_ints, why_not_tokenwise

HEADER = """
<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1, "strange": 1]>
g (float[b, s, 8] x, float[b, s, 8] z, int64[b, s] ids, int64[1] k) => (y)
<
    float[8, 8] w = {EIGHT_BY_EIGHT}, float[8] v = {0, 0, 0, 0, 0, 0, 0, 0}, int64[1] last = {-1}, int64[1] second = {1},
    int64[3] heads = {0, -1, 4}, int64[3] keep = {0, 0, -1}, int64[2] flat = {0, -1}, int64 three = {3},
    int64[1] zero = {0}, int64[1] two = {2}
>
""".replace("EIGHT_BY_EIGHT", ", ".join(["0"] * 64))


def verdict(body):
    graph = ir.from_onnx_text(HEADER + "{ " + body + " }").graph
    constants = constant_values(graph)
    return why_not_tokenwise(list(graph)[-1], constants.__contains__)


@pytest.mark.parametrize(
    "body",
    [
        "y = Add(x, z)",
        "y = Mul(x, v)",
        "y = MatMul(x, w)",
        "y = Gather(w, ids)",
        "y = Gather<axis = -1>(x, three)",
        "y = com.microsoft.MatMulNBits<K = 8, N = 8>(x, w, v)",
        "y = com.microsoft.GatherBlockQuantized(w, ids, v)",
        "y = com.microsoft.SkipSimplifiedLayerNormalization(x, z, v)",
        "y = SimplifiedLayerNormalization<axis = -1>(x, v)",
        "y = Softmax<axis = -1>(x)",
        "y = Concat<axis = 2>(x, z)",
        "y, y2 = Split<axis = -1>(x)",
        "y = Slice(x, zero, two, last)",
        "y = ReduceMean(x, last)",
        "y = Reshape(x, heads)",
        "y = Reshape(x, keep)",
        "s = Shape(x) first = Slice(s, zero, two) shape = Concat<axis = 0>(first, two) y = Reshape(x, shape)",
        "y = com.microsoft.RotaryEmbedding(x, ids, w, w)",
        "y = com.microsoft.MoE<k = 1>(x, z, w, v, w)",
    ],
)
def test_tokens_are_treated_one_by_one(body):
    assert verdict(body) is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y = MatMul(x, z)", "multiplies activations with each other"),
        ("y = com.microsoft.FusedMatMul<transA = 1>(x, w)", "multiplies activations"),
        ("y = Gather<axis = 1>(x, three)", "picks along axis 1"),
        ("y = Gather(w, w)", None),
        ("y = SimplifiedLayerNormalization<axis = 1>(x, v)", "works along axis 1"),
        ("y = Softmax(x)", "works along axis 1"),
        ("y = Concat<axis = 1>(x, z)", "works along axis 1"),
        ("y = Slice(x, zero, two, second)", "not along the last axis"),
        ("y = Slice(x, zero, two)", "not along the last axis"),
        ("y = ReduceMean(x, second)", "reduces more than the last axis"),
        ("y = ReduceMean<keepdims = 0>(x, last)", "reduces more"),
        ("y = ReduceMean(x)", "reduces more"),
        ("y = Reshape(x, flat)", "several tokens into one row"),
        ("y = Reshape(x, k)", "several tokens into one row"),
        ("y = Transpose(x)", "not known to treat tokens one by one"),
        ("y = CumSum(x, three)", "not known to treat tokens one by one"),
        ("y = com.microsoft.DynamicQuantizeMatMul(x, w, v)", "not known to treat"),
        ("y = com.microsoft.MoE<k = 1>(x, z, z, v, w)", "computed weights"),
        ("y = strange.Add(x, z)", "strange.Add is not known"),
    ],
)
def test_tokens_may_be_mixed(body, reason):
    said = verdict(body)
    if reason is None:
        assert said is None
    else:
        assert said is not None
        assert reason in said


def test_small_integer_constants_are_read():
    graph = ir.from_onnx_text(HEADER + "{ c = Constant<value = int64[2] {4, 5}>() y = Reshape(x, c) }").graph
    assert constant_ints(graph.initializers["heads"]) == [0, -1, 4]
    assert constant_ints(next(iter(graph)).outputs[0]) == [4, 5]
    assert constant_ints(graph.initializers["w"]) is None
    assert constant_ints(graph.inputs[0]) is None
    assert constant_ints(None) is None
