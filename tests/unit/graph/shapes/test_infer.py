import subprocess
import sys

import numpy as np
import onnx.defs
import onnx_ir as ir
import pytest

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.shapes import infer_shapes
from onnxgen.graph.shapes.walk import Walk
from shape_checks import infer_text, shapes_of


def infer(graph, *, opset=17, domains=""):
    model, report = infer_text(f'<ir_version: 10, opset_import: ["" : {opset}{domains}]>\n{graph}')
    return shapes_of(model), report, model


MS = ', "com.microsoft" : 1'


def test_symbols_of_inputs_survive():
    shapes, report, _ = infer(
        """g (float[batch, past, 8] cache, float[batch, seq, 8] new) => (float[a, b, c] y)
        { both = Concat<axis = 1>(cache, new)  y = Relu(both) }"""
    )
    assert shapes["y"] == ("batch", "past + seq", 8)
    assert report.unresolved == ()


def test_unnamed_dimensions_are_never_taken_for_equal():
    shapes, report, model = infer("g (float[?, 4] x, float[?, 4] z) => (y) { y = Add(x, z) }")
    first, second = (value.shape[0].value for value in model.graph.inputs)
    assert first != second
    assert shapes["y"] == (f"Max({first}, {second})", 4)
    assert report.symbols == {first: None, second: None}


@pytest.mark.parametrize("name", ["?", "-1", "unk", "None", "dynamic"])
def test_names_that_say_nothing_are_never_taken_for_equal(name):
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 17]> g (float[a] x, float[b] z) => (y) { y = Add(x, z) }'
    )
    for value in model.graph.inputs:
        value.shape = ir.Shape([name])
    report = infer_shapes(model)
    assert len({value.shape[0].value for value in model.graph.inputs}) == 2
    assert set(report.symbols.values()) == {name}


def test_names_that_are_no_identifiers_become_some():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 17]> g (float[a, b, c] x, float[a] z) => (y) { y = Relu(x) }'
    )
    model.graph.inputs[0].shape = ir.Shape(["batch size", "lambda", "N/2"])
    model.graph.inputs[1].shape = ir.Shape(["batch size"])
    report = infer_shapes(model)
    shape = shapes_of(model)["y"]
    assert all(str(dim).isidentifier() for dim in shape)
    assert [report.symbols[dim] for dim in shape] == ["batch size", "lambda", "N/2"]
    assert model.graph.inputs[1].shape[0].value == shape[0]


def test_an_input_dimension_may_be_an_expression_of_others():
    shapes, *_ = infer(
        """g (float[b, past] p, float[b, seq] n, float[b, total] mask) => (y)
        { k = Concat<axis = 1>(p, n)  y = Add(k, mask) }"""
    )
    assert shapes["y"] == ("b", "Max(total, past + seq)")
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 17]>
        g (float[b, past] p, float[b, seq] n, float[b, total] mask) => (y)
        { k = Concat<axis = 1>(p, n)  y = Add(k, mask) }"""
    )
    model.graph.inputs[2].shape = ir.Shape(["b", "seq+past"])
    infer_shapes(model)
    assert shapes_of(model)["y"] == ("b", "past + seq")


def test_shapes_are_computed_through_shape_arithmetic():
    shapes, *_ = infer(
        """g (float[batch, seq, 768] x) => (y)
        <int64[1] heads = {12, }, int64[1] minus = {-1, }, int64 zero = {0}, int64 one = {1}, int64[1] zero1 = {0, }>
        { s = Shape(x)
          b = Gather(s, zero)  b1 = Unsqueeze(b, zero1)
          n = Gather(s, one)  n1 = Unsqueeze(n, zero1)
          target = Concat<axis = 0>(b1, n1, heads, minus)
          y = Reshape(x, target) }""".replace("{12, }", "{12}")
        .replace("{-1, }", "{-1}")
        .replace("{0, }", "{0}")
    )
    assert shapes["y"] == ("batch", "seq", 12, 64)


def test_the_shape_that_exporters_expand_to():
    shapes, *_ = infer(
        """g (float[batch, 1, seq] x, int64[n] ids) => (y)
        <int64[1] minus = {-1}, int64[1] three = {3}, int64[1] one = {1}>
        { s = Shape(ids)
          target = Concat<axis = 0>(minus, s, minus)
          ones = ConstantOfShape<value = int64[1] {1}>(three)
          flipped = Mul(ones, minus)
          unset = Equal(target, flipped)
          chosen = Where(unset, ones, target)
          y = Expand(x, chosen) }"""
    )
    assert shapes["y"] == ("batch", "n", "seq")


def test_declared_intermediate_and_output_shapes_do_not_count():
    shapes, *_ = infer(
        """g (float[batch, 4] x) => (float[9, 9, 9] y)
        <float[7] h> { h = Relu(x)  y = Relu(h) }"""
    )
    assert shapes == {"h": ("batch", 4), "y": ("batch", 4)}


def test_declared_types_are_kept_for_operators_that_nobody_knows():
    shapes, report, _ = infer(
        """g (float[batch, 4] x) => (y) <float[3, ?] h> { h = other.Thing(x)  y = Relu(h) }""",
        domains=', "other" : 1',
    )
    assert report.declared == ("h",)
    assert shapes["y"][0] == 3


def test_unknown_rank_is_not_rank_zero():
    shapes, report, model = infer("g (float[n] x, int64[k] s) => (y) { r = Reshape(x, s)  y = Relu(r) }")
    assert shapes["y"] is None
    assert model.graph.outputs[0].dtype is ir.DataType.FLOAT
    assert report.unresolved == ("r", "y")


def test_an_initializer_that_can_be_fed_is_not_a_constant():
    model, _ = infer_text(
        """<ir_version: 10, opset_import: ["" : 17]>
        g (float[n, 6] x, int64[2] s) => (y) <int64[2] s = {-1, 3}> { y = Reshape(x, s) }"""
    )
    assert shapes_of(model)["y"] not in (("2*n", 3), None)
    assert model.graph.inputs[1].const_value is not None


def test_inference_leaves_no_constants_behind():
    _, _, model = infer("g (float[2, 3] x) => (y) { s = Shape(x)  y = ConstantOfShape(s) }")
    assert all(value.const_value is None for node in model.graph for value in node.outputs)
    assert all(not value.metadata_props for node in model.graph for value in node.outputs)


def test_a_failing_rule_leaves_a_gap_and_says_so():
    shapes, report, _ = infer("g (float[2, 3] x, float[4, 5] z) => (y) { h = MatMul(x, z)  y = Relu(x) }")
    assert shapes == {"h": None, "y": (2, 3)}
    assert report.unresolved == ("h",)
    assert "MatMul" in report.failures[0]


def test_types_that_an_operator_excludes_are_refused_all_at_once():
    with pytest.raises(InvalidGraphError) as failure:
        infer("g (float[n] x, int64[n] i, bool[n] b) => (y, z) { y = Add(x, i)  z = Exp(b) }")
    assert "'i' is tensor(int64)" in str(failure.value)
    assert "Exp" in str(failure.value)


def test_operators_of_the_optimizer_in_the_standard_domain():
    shapes, *_ = infer("g (float[b, 8] x, float[8] s) => (y) { y = SimplifiedLayerNormalization(x, s) }")
    assert shapes["y"] == ("b", 8)


def test_old_broadcasting_gives_the_first_shape():
    shapes, *_ = infer(
        "g (float[a, b, c] x, float[b] z) => (y) { y = Add<axis = 1, broadcast = 1>(x, z) }", opset=6
    )
    assert shapes["y"] == ("a", "b", "c")


def test_group_query_cache_grows_to_the_total_or_keeps_its_size():
    shapes, *_ = infer(
        """g (float[b, s, 32] q, float[b, s, 16] k, float[b, s, 16] v, float[b, 2, past, 8] pk,
        float[b, 2, past, 8] pv, int64[b, total] mask) => (y, k2, v2)
        <int64 one = {1}, int64[1] axis = {1}, int64[1] minus = {-1}>
        { sums = ReduceSum(mask, axis)  less = Add(sums, minus)  lengths = Cast<to = 6>(less)
          sh = Shape(mask)  t = Gather(sh, one)  total = Cast<to = 6>(t)
          y, k2, v2 = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>(q, k, v, pk, pv, lengths, total) }""",
        domains=MS,
    )
    assert shapes["y"] == ("b", "s", 32)
    assert shapes["k2"] == shapes["v2"] == ("b", 2, "Max(past, total)", 8)


def test_time_and_memory_stay_bounded_on_long_expressions():
    nodes = "\n".join(f"x{i + 1} = Concat<axis = 0>(x{i}, z{i % 40}, x{i})" for i in range(200))
    inputs = ", ".join(f"float[z{i}] z{i}" for i in range(40))
    shapes, *_ = infer(f"g (float[n] x0, {inputs}) => (y) {{ {nodes} y = Relu(x200) }}")
    assert all(len(str(shape[0])) <= 400 for shape in shapes.values())


def test_importing_the_package_is_light():
    code = (
        "import sys, onnxgen.graph.shapes, onnxgen.graph.costs;"
        "print([name for name in ('sympy', 'onnx', 'onnx_ir', 'onnx_shape_inference') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_large_integer_tensors_are_data():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 17]> g (float[n] x) => (y) { y = Gather(big, i) }'.replace(
            "(float[n] x)", "(int64[n] i)"
        ).replace("{ y", "<int64[1] big = {1}> { y")
    )
    big = model.graph.initializers["big"]
    big.const_value = ir.Tensor(np.arange(100_000), name="big")
    infer_shapes(model)
    assert shapes_of(model)["y"] == ("n",)


WITHOUT_RULE = {("ai.onnx.preview.training", "Gradient")}
"""It names a graph to differentiate."""


def test_every_version_of_every_operator_of_the_standard_has_a_rule():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 17]> g (float[n] x) => (y) { y = Relu(x) }'
    )
    walk = Walk(model)
    missing = set()
    for schema in onnx.defs.get_all_schemas_with_history():
        node = ir.Node(schema.domain, schema.name, [])
        if not schema.deprecated and schema.name not in ("If", "Loop", "Scan"):
            missing |= set() if walk.rule(node, schema.since_version) else {(schema.domain, schema.name)}
    assert missing == WITHOUT_RULE


@pytest.mark.parametrize("opset", [8, 17])
@pytest.mark.parametrize("axis", [-(2**31), 2**63 - 1, 4])
@pytest.mark.parametrize("op_type", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_axes_that_do_not_exist_leave_a_gap(op_type, axis, opset):
    shapes, report, _ = infer(
        f"g (float[2, 3, n] x, float[n] w) => (y, m) {{ y, m = {op_type}<axis = {axis}>(x, w) }}", opset=opset
    )
    assert shapes["m"] is None
    assert op_type in report.failures[0]


def test_declared_dimensions_that_are_kept_can_be_computed_with():
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 17, "other" : 1]> g (float[n] x) => (y)
        <float[1, 1, 1, 1] h> { h = other.Thing(x)  y = Relu(h) }"""
    )
    model.graph[0].outputs[0].shape = ir.Shape([-7, "9**9**9", "batch size", "n"])
    infer_shapes(model)
    shape = shapes_of(model)["y"]
    assert all(isinstance(dim, str) and dim.isidentifier() for dim in shape)
    assert shape[3] == "n" and len(set(shape)) == 4
