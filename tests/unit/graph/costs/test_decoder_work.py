import numpy as np
import onnx_ir as ir
import pytest

from onnxgen.graph.costs.decoder_work import DecoderWork, decoder_work

_BLOCKS = """
<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
decoder (float[tokens, 32] x, uint8[48, 1, 16] b, float[48, 1] scales, float[100, 48] head, uint8[100, 1, 16] table) => (float[tokens, 100] logits)
{
    y = com.microsoft.MatMulNBits <K = 32, N = 48, bits = 4, block_size = 32> (x, b, scales)
    wide = Transpose <perm = [1, 0]> (head)
    logits = MatMul (y, wide)
}
"""


def _model(text):
    """A graph whose inputs behind the first are weights."""
    model = ir.from_onnx_text(text)
    for value in model.graph.inputs[1:]:
        model.graph.inputs.remove(value)
        value.const_value = ir.tensor(np.zeros(value.shape.numpy(), value.dtype.numpy()), name=value.name)
        model.graph.initializers.add(value)
    return model


def test_matrices_count_with_scales_and_tables_do_not():
    work = decoder_work(_model(_BLOCKS), vocab_size=100)
    assert work == DecoderWork(48 * 16 + 48 * 4 + 100 * 48 * 4, 2 * 32 * 48, 2 * 48 * 100, is_quantized=True)


def test_a_matrix_of_two_products_is_read_once():
    text = """
    <ir_version: 10, opset_import: ["": 21]>
    decoder (float[tokens, 8] x, float[8, 8] w) => (float[tokens, 8] z)
    { y = MatMul (x, w)  z = MatMul (y, w) }
    """
    work = decoder_work(_model(text), vocab_size=100)
    assert work == DecoderWork(8 * 8 * 4, 2 * 2 * 8 * 8, 0, is_quantized=False)


def test_a_head_stored_the_other_way_round_is_a_head():
    text = """
    <ir_version: 10, opset_import: ["": 21]>
    decoder (float[tokens, 8] x, float[20, 8] w) => (float[tokens, 20] y)
    { y = Gemm <transB = 1> (x, w) }
    """
    assert decoder_work(_model(text), vocab_size=20).head_operations == 2 * 8 * 20


@pytest.mark.parametrize(
    "body", ["y = MatMul (x, x)", "y = com.microsoft.MoE (x, x, x, x)"], ids=["no matrices", "experts"]
)
def test_work_that_the_graph_does_not_say_is_none(body):
    text = f"""
    <ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    decoder (float[8, 8] x) => (float[8, 8] y) {{ {body} }}
    """
    assert decoder_work(_model(text), vocab_size=8) is None


def test_memory_or_arithmetic_is_the_bound():
    work = DecoderWork(1000, 10, 100, is_quantized=True)
    assert work.least_seconds(tokens=1, rows=1, bytes_per_s=100.0, operations_per_s=1000.0) == 10.0
    assert work.least_seconds(tokens=5000, rows=1, bytes_per_s=100.0, operations_per_s=1000.0) == 50.1
