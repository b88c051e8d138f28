"""Inferred shapes at random sizes against NumPy's, and against the arithmetic of the standard."""

import math

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from onnxgen.graph.shapes import infer_shapes
from onnxgen.graph.shapes.rules.slicing import extent
from shape_checks import check, known_dims, make_symbolic

unhurried = settings(max_examples=60, deadline=None)
sizes = st.integers(0, 4)
shapes = st.lists(sizes, max_size=4).map(tuple)


def infer(op_type, arrays, *, constants=(), outputs=1, opset=18, domain="", **attributes):
    """Outputs of one operator whose inputs' dimensions are symbols, and what the symbols stand for."""
    names = [f"x{at}" for at in range(len(arrays))]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, [f"y{at}" for at in range(outputs)], domain=domain, **attributes)],
        "g",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for at, (name, a) in enumerate(zip(names, arrays, strict=True))
            if at not in constants
        ],
        [helper.make_empty_tensor_value_info(f"y{at}") for at in range(outputs)],
        [numpy_helper.from_array(arrays[at], names[at]) for at in constants],
    )
    imports = [("", opset), ("ai.onnx.ml", 3)]
    model = ir.from_proto(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid(*import_) for import_ in imports], ir_version=9
        )
    )
    fed = [array for at, array in enumerate(arrays) if at not in constants]
    symbols = make_symbolic(model.graph.inputs, fed)
    report = infer_shapes(model)
    assert report.failures == ()
    return model.graph.outputs, symbols


def agrees(op_type, arrays, expected, **options):
    """Fail unless the whole shape is known, and right."""
    values, symbols = infer(op_type, arrays, outputs=len(expected), **options)
    known = [check(value, array, symbols) for value, array in zip(values, expected, strict=True)]
    assert all(known), [value.shape for value in values]


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


@st.composite
def together(draw):
    """Shapes that broadcast, without the empty dimension that meets a 1 (there a size depends on which is which)."""
    shape = draw(st.lists(st.integers(1, 4), max_size=4))
    parts = [
        tuple(size if draw(st.booleans()) else 1 for size in shape)[draw(st.integers(0, len(shape))) :]
        for _ in range(draw(st.integers(2, 3)))
    ]
    return parts


@unhurried
@given(together())
def test_broadcasting(parts):
    arrays = [zeros(*shape) for shape in parts]
    agrees("Sum", arrays, [sum(arrays, zeros())])
    agrees("Add", arrays[:2], [arrays[0] + arrays[1]])
    agrees("Less", arrays[:2], [arrays[0] < arrays[1]])
    agrees("Where", [arrays[0] > 0, *arrays[:2]], [np.where(arrays[0] > 0, *arrays[:2])])


@unhurried
@given(together(), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_matrix_products(parts, rows, depth, columns):
    a, b = zeros(*parts[0], rows, depth), zeros(*parts[1], depth, columns)
    agrees("MatMul", [a, b], [a @ b])
    agrees("MatMul", [a[..., 0, :], b], [np.matmul(a[..., 0, :], b)]) if len(parts[0]) == 0 else None


@unhurried
@given(shapes.filter(bool), st.data())
def test_reductions(shape, data):
    axes = data.draw(st.lists(st.integers(-len(shape), len(shape) - 1), unique_by=lambda a: a % len(shape)))
    keep = data.draw(st.booleans())
    x = zeros(*shape)
    axis = tuple(axes) or None
    agrees(
        "ReduceSum",
        [x, np.array(axes, np.int64)],
        [x.sum(axis, keepdims=keep)],
        constants=[1],
        keepdims=int(keep),
    )


@unhurried
@given(shapes, st.data())
def test_squeeze_and_unsqueeze(shape, data):
    rank = len(shape) + 2
    axes = data.draw(
        st.lists(st.integers(-rank, rank - 1), min_size=2, max_size=2, unique_by=lambda a: a % rank)
    )
    x = zeros(*shape)
    wide = np.expand_dims(x, tuple(axes))
    given_axes = np.array(axes, np.int64)
    agrees("Unsqueeze", [x, given_axes], [wide], constants=[1])
    agrees("Squeeze", [wide, given_axes], [x], constants=[1])


@unhurried
@given(st.integers(0, 9), st.integers(-12, 12), st.integers(-12, 12), st.integers(-3, 3).filter(bool))
def test_slices(size, start, end, step):
    x = zeros(size, 2)
    arrays = [np.array([value], np.int64) for value in (start, end, 0, step)]
    agrees("Slice", [x, *arrays], [x[start:end:step]], constants=[1, 2, 3, 4])


@unhurried
@given(
    st.integers(0, 9),
    st.sampled_from([2**63 - 1, -(2**63) + 1, 2**31 - 1, -(2**31)]),
    st.sampled_from([1, -1, 2]),
)
def test_slices_to_the_far_end(size, end, step):
    x = zeros(size)
    arrays = [np.array([value], np.int64) for value in (0 if step > 0 else -1, end, 0, step)]
    agrees("Slice", [x, *arrays], [x[arrays[0][0] : end : step]], constants=[1, 2, 3, 4])


def test_a_slice_with_a_step_of_zero_is_an_error():
    with pytest.raises(ValueError, match="step"):
        extent(4, 0, 4, 0)


@unhurried
@given(st.integers(0, 20), st.integers(1, 5))
def test_equal_parts(size, count):
    part = -(-size // count)
    parts = [max(0, min(part, size - at * part)) for at in range(count)]
    agrees("Split", [zeros(size, 2)], [zeros(part, 2) for part in parts], num_outputs=count)
    if size % count == 0:
        agrees("Split", [zeros(size)], [zeros(size // count)] * count, opset=13)


@unhurried
@given(shapes.filter(bool), st.data())
def test_reshape(shape, data):
    total = math.prod(shape)
    options = [(-1,), (total or -1,), (1, -1), (0, -1) if len(shape) > 1 else (-1, 1), (-1, shape[-1] or 1)]
    wanted = data.draw(st.sampled_from(options))
    x = zeros(*shape)
    filled = [shape[at] if size == 0 and at < len(shape) else size for at, size in enumerate(wanted)]
    if -1 in filled and 0 in filled:
        return  # no size makes 0 elements out of more, and any does out of none
    agrees("Reshape", [x, np.array(wanted, np.int64)], [x.reshape(filled)], constants=[1])


@unhurried
@given(shapes, st.data())
def test_expand_and_tile(shape, data):
    shape = tuple(size or 1 for size in shape)
    x = zeros(*shape)
    target = [size if data.draw(st.booleans()) else 1 for size in shape]
    target = [data.draw(st.integers(1, 3)), *target] if data.draw(st.booleans()) else target
    agrees("Expand", [x, np.array(target, np.int64)], [x * np.ones(target, np.float32)], constants=[1])
    times = data.draw(st.lists(sizes, min_size=len(shape), max_size=len(shape)))
    agrees(
        "Tile",
        [x, np.array(times, np.int64)],
        [np.tile(x, times).reshape([a * b for a, b in zip(shape, times, strict=True)])],
        constants=[1],
    )


@unhurried
@given(st.lists(shapes.filter(bool), min_size=1, max_size=3), st.data())
def test_concat(parts, data):
    rank = len(parts[0])
    axis = data.draw(st.integers(-rank, rank - 1))
    arrays = []
    for at, part in enumerate(parts):
        shape = list(parts[0])
        shape[axis] = part[0] if at else shape[axis]
        arrays.append(zeros(*shape))
    agrees("Concat", arrays, [np.concatenate(arrays, axis)], axis=axis)


@unhurried
@given(
    st.integers(1, 12), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2),
    st.integers(1, 2), st.integers(0, 1),
)  # fmt: skip
def test_pooling_windows(size, kernel, stride, begin, end, dilation, ceil):
    reach = dilation * (kernel - 1) + 1
    room = size + begin + end - reach
    if room < 0 or max(begin, end) >= kernel:
        return
    count = -(-room // stride) + 1 if ceil else room // stride + 1
    if ceil and (count - 1) * stride >= size + begin:
        count -= 1
    agrees(
        "MaxPool", [zeros(1, 2, size)], [zeros(1, 2, count)],
        kernel_shape=[kernel], strides=[stride], pads=[begin, end], dilations=[dilation], ceil_mode=ceil,
    )  # fmt: skip


def test_an_input_that_is_too_short_for_a_pooling_window_makes_one():
    text = """<ir_version: 10, opset_import: ["" : 17]> g (float[1, 2, 1] x, float[1, 2, 1] z) => (y, none)
    { y = MaxPool<kernel_shape = [2], strides = [2]>(x) none = MaxPool<kernel_shape = [3], strides = [2]>(z) }"""
    model = ir.from_onnx_text(text)
    infer_shapes(model)
    assert [value.shape for value in model.graph.outputs] == [[1, 2, 1], [1, 2, 0]]


@unhurried
@given(st.integers(0, 9), st.integers(1, 5), st.integers(1, 4))
def test_a_range_over_sizes(start, length, step):
    text = """<ir_version: 10, opset_import: ["" : 17]> g (float[a] x, float[b] z, int64 step) => (y)
    <int64[0] none = {}> { ax = Size(x) az = Size(z) end = Add(ax, az) y = Range(ax, end, delta) }"""
    model = ir.from_onnx_text(text.replace("<int64[0] none = {}>", f"<int64 delta = {{{step}}}>"))
    infer_shapes(model)
    expected = np.arange(start, start + length, step)
    assert check(model.graph.outputs[0], expected, {"a": start, "b": length})


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize(("op_type", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_networks(op_type, gates, layout):
    x = zeros(2, 5, 3) if layout else zeros(5, 2, 3)
    w, r = zeros(2, gates * 4, 3), zeros(2, gates * 4, 4)
    whole = zeros(2, 5, 2, 4) if layout else zeros(5, 2, 2, 4)
    last = zeros(2, 2, 4)
    states = 2 if op_type == "LSTM" else 1
    agrees(
        op_type, [x, w, r], [whole, *[last] * states], direction="bidirectional", hidden_size=4, layout=layout
    )


@pytest.mark.parametrize(
    ("axis", "expected"), [(None, [(None,), (None,), (6,)]), (1, [(2, None), (None,), (3,)])]
)
def test_unique(axis, expected):
    options = {} if axis is None else {"axis": axis}
    values, symbols = infer("Unique", [zeros(2, 3)], outputs=3, **options)
    for value, shape in zip(values, expected, strict=True):
        assert len(value.shape) == len(shape)
        assert [size for size in known_dims(value, symbols) if size is not None] == [
            s for s in shape if s is not None
        ]


@pytest.mark.parametrize("data", [(5,), (4, 5), (2, 4, 5)])
@pytest.mark.parametrize("indices", [(3,), (1, 3), (3, 1)])
def test_extracted_features(data, indices):
    expected = zeros(*(data[:-1] or (1,)), 3)
    agrees(
        "ArrayFeatureExtractor",
        [zeros(*data), zeros(*indices, dtype=np.int64)],
        [expected],
        domain="ai.onnx.ml",
    )


@pytest.mark.parametrize("probabilities", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_scores_of_pairs_of_classes(classes, probabilities):
    pairs = classes * (classes - 1) // 2
    options = {
        "vectors_per_class": [1] * classes,
        "classlabels_ints": list(range(classes)),
        "domain": "ai.onnx.ml",
    }
    if probabilities:
        options |= {"prob_a": [0.0] * pairs, "prob_b": [0.0] * pairs}
    width = classes if probabilities or classes == 2 else pairs
    labels, scores = zeros(6, dtype=np.int64), zeros(6, width)
    agrees("SVMClassifier", [zeros(6, 5)], [labels, scores], **options)
