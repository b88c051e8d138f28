import onnx
import pytest
from onnx import TensorProto, helper

from onnxgen.cli.graph_facts import graph_facts

NODES = """
g (float[b, 32] x, int64[b] ids, uint8[8, 2, 8] q, float[8, 2] s, {zero_points} z) => (float[b, 8] y)
{{
   e = Gather(table, ids)
   y = com.microsoft.MatMulNBits <K: int = 32, N: int = 8, bits: int = 4, block_size: int = 16,
        accuracy_level: int = 4> (e, q, s, z)
   b1 = MatMul(x, up)
   c = Cast <to: int = 1> (half)
   d = MatMul(x, c)
   f = MatMul(x, x)
}}
"""


@pytest.mark.parametrize(
    ("zero_points", "kind"), [("float[8, 2]", "float zero points"), ("uint8[8, 1]", "zero points")]
)
def test_each_way_of_storing_a_matrix_is_told(tmp_path, zero_points, kind):
    names = {"table": "model.embed_tokens.weight", "up": "model.layers.0.mlp.up_proj.weight", "half": "h"}
    graph = onnx.parser.parse_graph(NODES.format(zero_points=zero_points))
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    for name, kind_of, shape in (
        ("table", TensorProto.FLOAT, (4, 32)),
        ("up", TensorProto.FLOAT, (32, 8)),
        ("half", TensorProto.FLOAT16, (32, 8)),
    ):
        values = [0.0] * (shape[0] * shape[1])
        graph.initializer.append(helper.make_tensor(names[name], kind_of, shape, values))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "model.onnx")
    facts = graph_facts(tmp_path / "model.onnx")
    assert facts["opsets"] == {"ai.onnx": 21, "com.microsoft": 1} and facts["nodes"] == 6
    assert facts["matrices"] == {
        "model.embed_tokens": "1 x float",
        "q": f"1 x int4 block 16 {kind} (accuracy level 4)",
        "mlp.up_proj": "1 x float",
        "h": "1 x float16",
    }
