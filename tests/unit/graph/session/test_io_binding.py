import ml_dtypes
import numpy as np
import onnx
import pytest

from graph_models import identity, model
from onnxgen.errors import CapabilityError, ConfigError, FeedError, KernelError
from onnxgen.graph.session import InferenceSession, OrtValue

X = np.array([[1, -2], [3, 0]], np.float32)


@pytest.fixture
def session():
    return InferenceSession(
        model("g (float[N, 2] x) => (float[N, 2] y, float[N, 2] z) { y = Abs(x) \n z = Neg(x) }")
    )


def test_outputs_without_memory_are_allocated(session):
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("z")
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    z, y = binding.get_outputs()
    np.testing.assert_array_equal(z.numpy(), -X)
    np.testing.assert_array_equal(y.numpy(), abs(X))
    copies = binding.copy_outputs_to_cpu()
    np.testing.assert_array_equal(copies[0], -X)
    assert not np.shares_memory(copies[0], z.numpy())
    assert [value.shape() for value in binding.get_outputs_as_ortvaluevector()] == [[2, 2], [2, 2]]


@pytest.mark.parametrize("runs", [1, 5])
def test_outputs_are_written_where_they_are_bound(session, runs):
    y, z = np.zeros((2, 2), np.float32), OrtValue.ortvalue_from_shape_and_type([2, 2], np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    binding.bind_ortvalue_output("z", z)
    for _ in range(runs):
        session.run_with_iobinding(binding)
    np.testing.assert_array_equal(y, abs(X))
    np.testing.assert_array_equal(z.numpy(), -X)
    assert binding.get_outputs()[0].data_ptr() == y.ctypes.data
    assert binding.get_outputs()[1].data_ptr() == z.data_ptr()


def test_what_is_written_into_bound_inputs_counts(session):
    x = X.copy()
    value = OrtValue.ortvalue_from_numpy(x)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    value.update_inplace(X + 1)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), -(X + 1))
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    x[:] = 5
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), np.full((2, 2), -5))


def test_names_can_be_bound_again_and_cleared(session):
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    buffer = np.zeros((2, 2), np.float32)
    binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_numpy(buffer))
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    assert not buffer.any()
    binding.bind_cpu_input("x", X[:1])
    session.run_with_iobinding(binding)
    assert binding.get_outputs()[0].shape() == [1, 2]
    binding.clear_binding_outputs()
    assert binding.get_outputs() == []
    with pytest.raises(FeedError, match="no output is bound"):
        session.run_with_iobinding(binding)
    binding.bind_output("y")
    binding.clear_binding_inputs()
    with pytest.raises(FeedError, match="missing input 'x'"):
        session.run_with_iobinding(binding)


@pytest.mark.parametrize("shape", [(1, 2), (2, 3)])
def test_memory_of_another_shape_or_type_is_refused(session, shape):
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_shape_and_type(shape, np.float32))
    for _ in range(4):
        with pytest.raises(FeedError, match=r"'y'.*float32\[2, 2\]"):
            session.run_with_iobinding(binding)
    binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_shape_and_type((2, 2), np.float64))
    with pytest.raises(FeedError, match="float64"):
        session.run_with_iobinding(binding)


def test_wrong_bindings_are_refused(session):
    binding = session.io_binding()
    with pytest.raises(FeedError, match="no input 'q'"):
        binding.bind_cpu_input("q", X)
    with pytest.raises(FeedError, match=r"tensor\(double\)"):
        binding.bind_cpu_input("x", X.astype(np.float64))
    with pytest.raises(FeedError, match="no output 'q'"):
        binding.bind_output("q")
    with pytest.raises(FeedError, match="read-only"):
        binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_numpy(np.broadcast_to(X, X.shape)))
    with pytest.raises(CapabilityError, match="cuda:0"):
        binding.bind_output("y", "cuda")
    with pytest.raises(CapabilityError, match="cuda:1"):
        binding.bind_input("x", "cuda", 1, np.float32, (2, 2), 0)
    with pytest.raises(ConfigError, match="element_type and shape"):
        binding.bind_output("y", buffer_ptr=X.ctypes.data)
    binding.synchronize_inputs()
    binding.synchronize_outputs()


def test_types_without_a_numpy_form_are_bound_by_their_number():
    session = InferenceSession(identity("bfloat16[N]"))
    x = np.array([1, 2.5], ml_dtypes.bfloat16)
    y = np.zeros_like(x)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, onnx.TensorProto.BFLOAT16, [2], x.ctypes.data)
    binding.bind_output("y", "cpu", 0, ml_dtypes.bfloat16, [2], y.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(x, y)
    binding.bind_input("x", "cpu", 0, ml_dtypes.bfloat16, [0], 0)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    assert binding.get_outputs()[0].shape() == [0]


def test_an_output_may_take_its_inputs_memory():
    session = InferenceSession(model("g (float[N] x) => (float[N] y) { a = Neg(x) \n y = Mul(a, x) }"))
    value = OrtValue.ortvalue_from_numpy(np.array([1, -2], np.float32))
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_ortvalue_output("y", value)
    for expected in ([-1, -4], [-1, -16], [-1, -256], [-1, -65536]):
        session.run_with_iobinding(binding)
        assert value.numpy().tolist() == expected


def test_sequences_are_bound_as_lists():
    session = InferenceSession(identity("seq(float[N])", opset=17))
    binding = session.io_binding()
    binding.bind_cpu_input("x", [X[0], X[1]])
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    (value,) = binding.get_outputs()
    assert value.is_tensor_sequence()
    assert [array.tolist() for array in binding.copy_outputs_to_cpu()[0]] == X.tolist()


def test_a_cache_is_one_buffer_in_and_out():
    text = """<ir_version: 10, opset_import: ["" : 24]>
        g (float[2, 1, 8, 4] cache, float[2, 1, 1, 4] new, int64[2] places) => (float[2, 1, 8, 4] kept) {
            kept = TensorScatter(cache, new, places)
        }"""
    session = InferenceSession(onnx.parser.parse_model(text).SerializeToString())
    cache, want = np.zeros((2, 1, 8, 4), np.float32), np.zeros((2, 1, 8, 4), np.float32)
    new, places = np.zeros((2, 1, 1, 4), np.float32), np.zeros(2, np.int64)
    binding = session.io_binding()
    for name, array in (("cache", cache), ("new", new), ("places", places)):
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    binding.bind_output("kept", "cpu", 0, np.float32, cache.shape, cache.ctypes.data)
    for step in range(8):
        new[...], places[...] = step + 1, (step, 7 - step)
        session.run_with_iobinding(binding)
        want[0, 0, step] = want[1, 0, 7 - step] = step + 1
        np.testing.assert_array_equal(cache, want)


def test_an_input_that_others_read_is_not_written_over():
    text = """<ir_version: 10, opset_import: ["" : 20]>
        g (float[3] x) => (float[3] y, float[3] z) {
            one = Constant <value = float {1}> ()
            y = Add(x, one)
            z = Mul(x, x)
        }"""
    session = InferenceSession(onnx.parser.parse_model(text).SerializeToString())
    for _ in range(4):
        x, z = np.array([1, 2, 3], np.float32), np.empty(3, np.float32)
        binding = session.io_binding()
        binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
        binding.bind_output("y", "cpu", 0, np.float32, x.shape, x.ctypes.data)
        binding.bind_output("z", "cpu", 0, np.float32, z.shape, z.ctypes.data)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(x, [2, 3, 4])
        np.testing.assert_array_equal(z, [1, 4, 9])


def test_a_cache_of_a_length_that_no_shape_says_is_written_in_place_until_it_is_full():
    capacity, kv_heads, dim = 6, 2, 8
    node = onnx.helper.make_node(
        "GroupQueryAttention",
        ["q", "k", "v", "past_key", "past_value", "seqlens_k", "total"],
        ["y", "present_key", "present_value"],
        domain="com.microsoft",
        num_heads=2 * kv_heads,
        kv_num_heads=kv_heads,
    )
    rng = np.random.default_rng(0)
    given = {
        "q": rng.standard_normal((1, 1, 2 * kv_heads * dim)).astype(np.float32),
        **{name: rng.standard_normal((1, 1, kv_heads * dim)).astype(np.float32) for name in ("k", "v")},
        **{name: np.zeros((1, kv_heads, capacity, dim), np.float32) for name in ("past_key", "past_value")},
        **{name: np.zeros(1, np.int32) for name in ("seqlens_k", "total")},
    }
    types = [
        onnx.helper.make_tensor_value_info(k, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for k, v in given.items()
    ]
    graph = onnx.helper.make_graph(
        [node], "g", types, [onnx.ValueInfoProto(name=name) for name in node.output]
    )
    imports = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("com.microsoft", 1)]
    model_bytes = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
    session, fresh = InferenceSession(model_bytes), InferenceSession(model_bytes)
    y, binding = np.empty((1, 1, 2 * kv_heads * dim), np.float32), session.io_binding()
    for name, array in given.items():
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    binding.bind_output("y", "cpu", 0, y.dtype, y.shape, y.ctypes.data)
    for part in ("key", "value"):
        past = given[f"past_{part}"]
        binding.bind_output(f"present_{part}", "cpu", 0, past.dtype, past.shape, past.ctypes.data)
    for step in range(capacity):
        given["seqlens_k"][:], given["total"][:] = step, step + 1
        want = fresh.run(None, {name: array.copy() for name, array in given.items()})
        session.run_with_iobinding(binding)
        for got, other in zip((y, given["past_key"], given["past_value"]), want, strict=True):
            np.testing.assert_array_equal(got, other)
    given["seqlens_k"][:], given["total"][:] = capacity, capacity + 1
    with pytest.raises(KernelError, match="present key cache"):
        session.run_with_iobinding(binding)
