import numpy as np
import onnx_ir as ir
import pytest

from onnxgen.backends.lora_places import Linear
from onnxgen.backends.ort.graph_edit import lora
from onnxgen.backends.ort.graph_edit.names import LORA_A, LORA_B


def graph_of(text):
    return ir.from_onnx_text(text).graph


DECODER = """
<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
decoder (float[batch, seq, 6] x, float[6] offset, float[4, 2] down_lora_A, float[rank, 3] up_LoRA_B, float[2] other)
    => (float[batch, seq, 4] y)
    <float[6, 4] w = {0}, float[6] offset = {0}, float[4, 4] head = {0}>
{
    moved = Add (x, offset)
    plain = MatMul (moved, w)
    low = MatMul (plain, down_lora_A)
    y = MatMul (plain, head)
}
"""


def decoder():
    text = DECODER.replace("w = {0}", f"w = {{{', '.join('0' for _ in range(24))}}}")
    text = text.replace("offset = {0}", "offset = {1, 2, 3, 4, 5, 6}")
    text = text.replace("head = {0}", f"head = {{{', '.join('0' for _ in range(16))}}}")
    graph = graph_of(text)
    for node, name in zip(
        graph, ("add", "/model/layers.0/attn/o_proj/MatMul", "low", "/lm_head/MatMul"), strict=True
    ):
        node.name = name
    return graph


def test_inputs_made_for_adapters_become_constants():
    graph = decoder()
    assert lora.settle_inputs(graph, {"x", "other"}) == ("offset", "down_lora_A", "up_LoRA_B")
    assert [v.name for v in graph.inputs] == ["x", "other"]
    content = {name: value.const_value.numpy() for name, value in graph.initializers.items()}
    np.testing.assert_array_equal(content["offset"], [1, 2, 3, 4, 5, 6])
    assert content["down_lora_A"].shape == (4, 2)
    assert content["up_LoRA_B"].shape == (1, 3)
    assert not content["down_lora_A"].any()
    (port,) = lora.open_inputs(graph, ["offset"])
    assert (port.name, port.dtype, port.dims) == ("offset", "float32", (6,))
    assert [v.name for v in graph.inputs] == ["x", "other", "offset"]
    assert "offset" not in graph.initializers


def test_an_input_without_a_default_and_another_name_stays_an_input():
    graph = decoder()
    lora.settle_inputs(graph, {"x"})
    assert [v.name for v in graph.inputs] == ["x", "other"]


def test_products_are_known_by_name_and_size():
    graph = decoder()
    lora.settle_inputs(graph, {"x"})
    found = {linear.node: linear for linear in lora.linears_of(graph)}
    assert found["/model/layers.0/attn/o_proj/MatMul"] == Linear("/model/layers.0/attn/o_proj/MatMul", 6, 4)
    assert found["/lm_head/MatMul"] == Linear("/lm_head/MatMul", 4, 4)


@pytest.mark.parametrize("node", ["/model/layers.0/attn/o_proj/MatMul", "/lm_head/MatMul"])
def test_a_product_adds_what_two_inputs_say(node):
    import onnxruntime as ort

    graph = decoder()
    lora.settle_inputs(graph, {"x", "other"})
    names = lora.add_pairs(graph, {node})
    assert names == (f"{LORA_A}{node}", f"{LORA_B}{node}")
    ports = lora.open_inputs(graph, names)
    columns = 6 if "o_proj" in node else 4
    assert [port.dims for port in ports] == [(columns, None), (None, 4)]
    model = ir.Model(graph, ir_version=10)
    rng = np.random.default_rng(3)
    weights = {n: rng.standard_normal(graph.initializers[n].shape).astype(np.float32) for n in ("w", "head")}
    for name, array in weights.items():
        graph.initializers[name].const_value = ir.tensor(array, name=name)
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    x = rng.standard_normal((1, 3, 6)).astype(np.float32)
    for rank in (1, 5):
        a, b = (rng.standard_normal(s).astype(np.float32) for s in ((columns, rank), (rank, 4)))
        (y,) = session.run(["y"], {"x": x, "other": np.zeros(2, np.float32), names[0]: a, names[1]: b})
        own = {"/model/layers.0/attn/o_proj/MatMul": weights["w"], "/lm_head/MatMul": weights["head"]}
        own[node] = own[node] + a @ b
        want = (x + np.arange(1, 7)) @ own["/model/layers.0/attn/o_proj/MatMul"] @ own["/lm_head/MatMul"]
        np.testing.assert_allclose(y, want, rtol=1e-3, atol=1e-3)
