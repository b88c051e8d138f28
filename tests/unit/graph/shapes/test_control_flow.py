import onnx_ir as ir
import pytest

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.shapes import infer_shapes
from shape_checks import infer_text, shapes_of


def infer(graph, *, opset=17):
    model, report = infer_text(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{graph}')
    return shapes_of(model), report, model


def test_branches_that_agree_give_their_shape():
    shapes, *_ = infer(
        """g (float[n, 4] x, bool c) => (y) { y = If(c) <
        then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (b) { b = Exp(x) }> }"""
    )
    assert shapes["y"] == ("n", 4)


def test_dimensions_in_which_branches_differ_get_a_symbol():
    shapes, *_ = infer(
        """g (float[n, 4] x, float[m, 4] z, bool c) => (y) { y = If(c) <
        then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (b) { b = Exp(z) }> }"""
    )
    assert shapes["y"][0] not in ("n", "m")
    assert shapes["y"][1] == 4


def test_branches_of_different_rank_give_no_rank():
    shapes, report, _ = infer(
        """g (float[n, 4] x, bool c) => (y) { y = If(c) <
        then_branch = t () => (a) { a = Relu(x) },
        else_branch = e () => (b) { b = ReduceSum<keepdims = 0>(x) }> }"""
    )
    assert shapes["y"] is None
    assert report.unresolved == ("y",)


LOOP = """g (float[n] start, int64 trips, bool go) => (last, each) {{ last, each = Loop(trips, go, start) <
    body = b (int64 i, bool c, float[?] carried) => (c2, next, row)
    {{ c2 = Identity(c)  next = {next}  row = Relu(carried) }}> }}"""


def test_a_carried_value_that_keeps_its_shape_has_it_after_the_loop():
    shapes, *_ = infer(LOOP.format(next="Exp(carried)"))
    assert shapes["last"] == ("n",)
    assert shapes["each"][1:] == ("n",)
    assert shapes["each"][0] not in ("n", "trips")


def test_a_carried_value_that_grows_has_a_size_of_its_own():
    shapes, _, model = infer(LOOP.format(next="Concat<axis = 0>(carried, start)"))
    assert len(shapes["last"]) == 1
    assert shapes["last"] != ("n",)
    body = model.graph[0].attributes["body"].as_graph()
    assert body.inputs[2].shape[0].value not in ("n", None)


def test_a_carried_value_that_changes_its_rank_has_none():
    shapes, report, _ = infer(
        """g (float[n] start, int64 trips, bool go) => (last) <int64[1] zero = {0}> { last = Loop(trips, go, start) <
        body = b (int64 i, bool c, float[?] carried) => (c2, next)
        { c2 = Identity(c)  next = Unsqueeze(carried, zero) }> }"""
    )
    assert shapes["last"] is None
    assert "last" in report.unresolved


def test_the_trips_of_a_loop_that_nothing_ends_early_are_a_dimension():
    shapes, *_ = infer(
        """g (float[n, 3] x) => (each) <int64 zero = {0}, bool yes = {1}>
        { s = Shape(x)  trips = Gather(s, zero)
          each = Loop(trips, yes) < body = b (int64 i, bool c) => (c2, row)
          { c2 = Identity(c)  row = Gather(x, i) }> }"""
    )
    assert shapes["each"] == ("n", 3)


def test_scans_take_and_give_slices():
    shapes, *_ = infer(
        """g (float[h] start, float[b, time, h] x) => (last, all) { last, all = Scan<num_scan_inputs = 1,
        scan_input_axes = [1], scan_output_axes = [-1],
        body = s (float[?] state, float[?, ?] row) => (next, out) { next = Identity(state)  out = Relu(row) }>(start, x) }"""
    )
    assert shapes == {"last": ("h",), "all": ("b", "h", "time")}


def test_sequences_carry_their_type_through_loops():
    _, report, model = infer(
        """g (float[n] x, int64 trips, bool go) => (all) { empty = SequenceEmpty<dtype = 1>()
        all = Loop(trips, go, empty) < body = b (int64 i, bool c, seq(float[?]) so_far) => (c2, more)
        { c2 = Identity(c)  more = SequenceInsert(so_far, x) }> }"""
    )
    assert model.graph.outputs[0].type == ir.SequenceType(ir.TensorType(ir.DataType.FLOAT))
    assert report.unresolved == ()


def test_branches_of_different_types_leave_a_gap():
    _, report, _ = infer(
        """g (float[n] x, bool c) => (y) { y = If(c) <
        then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (b) { b = Shape(x) }> }"""
    )
    assert "y" in report.unresolved
    assert "INT64" in report.failures[0]


def test_nested_loops_take_bounded_time():
    body = "next = Concat<axis = 0>(carried, carried)"
    for depth in range(12):
        body = (
            f"inner = Loop(trips, c, carried) < body = b{depth} (int64 i, bool c, float[?] carried) => (c2, next) "
            f"{{ c2 = Identity(c) {body} }}>  next = Identity(inner)"
        )
    text = f"g (float[n] carried, int64 trips, bool c) => (next) {{ {body} }}"
    for depth in range(12):  # inner graphs may not name a value of an outer one again
        text = text.replace(
            f"body = b{depth} (int64 i, bool c, float[?] carried) => (c2, next) {{ c2",
            f"body = b{depth} (int64 i{depth}, bool c, float[?] carried) => (c2, next) {{ c2",
        )
    model = ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 17]>\n{text}')
    report = infer_shapes(model)
    assert report.resolved


def test_contradictions_inside_bodies_are_found():
    with pytest.raises(InvalidGraphError, match="Exp"):
        infer(
            """g (bool[n] x, bool c) => (y) { y = If(c) <
            then_branch = t () => (a) { a = Exp(x) }, else_branch = e () => (b) { b = Identity(x) }> }"""
        )
