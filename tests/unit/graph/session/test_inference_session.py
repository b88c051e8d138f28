import copy
import json
import logging
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from threadpoolctl import threadpool_info

from graph_models import model
from onnxgen.errors import (
    ConfigError,
    FeedError,
    KernelError,
    ModelNotFoundError,
    RunCancelledError,
    UnsupportedOperatorError,
)
from onnxgen.graph.cpu.provider import CpuProvider
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.threads import most_threads
from onnxgen.graph.session import (
    GraphOptimizationLevel,
    InferenceSession,
    OrtValue,
    RunOptions,
    SessionOptions,
)

X = np.array([[1, -2], [3, 0]], np.float32)
TWO = "g (float[N, 2] x) => (float[N, 2] y, float[N, 2] z) { y = Abs(x) \n z = Neg(x) }"


@pytest.fixture(scope="module")
def two():
    return InferenceSession(model(TWO))


def test_paths_bytes_and_models_are_loaded(tmp_path):
    proto = model(TWO)
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    for source in (path, str(path), proto.SerializeToString(), proto, ir.from_proto(proto)):
        np.testing.assert_array_equal(InferenceSession(source).run(["y"], {"x": X})[0], abs(X))
    with pytest.raises(ModelNotFoundError, match="nowhere"):
        InferenceSession(tmp_path / "nowhere.onnx")


@pytest.mark.parametrize("names", [None, [], ["y", "z"], ["z"], ("z", "y"), ["y", "y"]])
def test_outputs_come_as_asked(two, names):
    expected = {"y": abs(X), "z": -X}
    found = two.run(names if names is None else iter(names), {"x": X})
    assert len(found) == len(names or expected)
    for name, value in zip(names or expected, found, strict=True):
        np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["w"], "no output 'w'"),
        ("y", r"write \['y'\]"),
        (["yy"], "did you mean 'y'"),
        ([["y"]], r"no output \['y'\]"),
        ([None], "no output None"),
    ],
)
def test_unknown_outputs_are_named(two, names, message):
    with pytest.raises(FeedError, match=message):
        two.run(names, {"x": X})


def test_ports_are_described_as_onnx_runtime_does():
    value = onnx.helper.make_tensor_value_info
    inputs = [
        value("a", onnx.TensorProto.FLOAT, ["N", None, "", 3]),
        value("b", onnx.TensorProto.FLOAT, None),
        value("c", onnx.TensorProto.INT64, []),
        onnx.helper.make_tensor_sequence_value_info("d", onnx.TensorProto.STRING, None),
    ]
    outputs = [onnx.ValueInfoProto(name=item.name + "_", type=item.type) for item in inputs]
    nodes = [onnx.helper.make_node("Identity", [item.name], [item.name + "_"]) for item in inputs]
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "g", inputs, outputs),
        opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8,
    )  # fmt: skip
    ours, theirs = InferenceSession(proto), onnxruntime.InferenceSession(proto.SerializeToString())
    for mine, other in zip(
        ours.get_inputs() + ours.get_outputs(), theirs.get_inputs() + theirs.get_outputs(), strict=True
    ):
        assert (mine.name, mine.type, mine.shape) == (other.name, other.type, other.shape)
    assert [port.rank for port in ours.get_inputs()] == [4, None, 0, None]


def test_metadata_is_what_onnx_runtime_says():
    extra = ', producer_name: "maker", domain: "a.b", model_version: 7, doc_string: "about", metadata_props: ["k": "v"]'
    proto = model(TWO, ir=8, extra=extra)
    proto.graph.doc_string = "the graph"
    mine = InferenceSession(proto).get_modelmeta()
    other = onnxruntime.InferenceSession(proto.SerializeToString()).get_modelmeta()
    for name in (
        "custom_metadata_map", "description", "domain", "graph_description", "graph_name", "producer_name", "version",
    ):  # fmt: skip
        assert getattr(mine, name) == getattr(other, name)


def test_providers_and_options_are_told(two):
    assert two.get_providers() == ["cpu", "reference"]
    assert two.get_provider_options() == {"cpu": {}, "reference": {}}
    options = SessionOptions()
    session = InferenceSession(model(TWO), options, ["CPUExecutionProvider"])
    assert session.get_session_options() is options
    assert session.get_providers() == ["cpu", "reference"]
    with pytest.raises(ConfigError, match=r"'cpp'; did you mean 'cpu'\?; installed are .*reference"):
        InferenceSession(model(TWO), providers=["cpp"])
    with pytest.raises(ConfigError, match="two spellings"):
        InferenceSession(model(TWO), options, session_options=options)
    with pytest.raises(ConfigError, match="found dict"):
        InferenceSession(model(TWO), session_options={})


def test_what_nobody_runs_is_told_with_reasons():
    with pytest.raises(UnsupportedOperatorError, match=r"(?s)Frobnicate.*cpu: .*reference: "):
        InferenceSession(
            model(
                "g (float[N] x) => (float[N] y) { y = my.domain.Frobnicate(x) }", domains=', "my.domain" : 1'
            )
        )


def test_a_failing_node_is_named(two):
    session = InferenceSession(model("g (float[N] a, float[M] b) => (float[K] y) { y = Add(a, b) }"))
    with pytest.raises(KernelError, match=r"Add-14.*a: .*b: ") as error:
        session.run(None, {"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)})
    assert "2" in str(error.value)
    assert session.run(None, {"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)})[0].tolist() == [2, 2]


def test_sessions_and_bindings_are_neither_pickled_nor_copied(two):
    for thing in (two, two.io_binding()):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(thing)
        with pytest.raises(TypeError, match="cannot be pickled"):
            copy.copy(thing)


class ThreadCounter(CpuProvider):
    """The cpu provider; its kernels note how many threads they may use."""

    name = "counter"

    def __init__(self):
        self.seen = set()

    def compile(self, node, claim):
        kernel = super().compile(node, claim)

        def run(*inputs):
            blas = {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
            self.seen |= {most_threads(64), *blas}
            return kernel.run(*inputs)

        return Kernel(run)


def test_threads_are_limited_while_a_session_runs():
    provider = ThreadCounter()
    proto = model("g (float[N, 2] x) => (float[N, 2] y) { y = MatMul (x, x) }")
    usual = threadpool_info()
    limited = InferenceSession(proto, SessionOptions(intra_op_num_threads=1), [provider])
    limited.run(None, {"x": X})
    assert provider.seen == {1}
    provider.seen.clear()
    binding = limited.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    limited.run_with_iobinding(binding)
    assert provider.seen == {1}
    assert threadpool_info() == usual
    provider.seen.clear()
    InferenceSession(proto, providers=[provider]).run(None, {"x": X})
    assert 64 in provider.seen


def test_ort_values_go_in_and_out(two):
    y, z = two.run_with_ort_values(None, {"x": OrtValue.ortvalue_from_numpy(X)})
    assert y.data_type() == "tensor(float)"
    np.testing.assert_array_equal(z.numpy(), -X)


LOOP = """g (int64 n, float[2] start) => (float[2] last) {
    yes = Constant <value: tensor = bool {1}> ()
    last = Loop (n, yes, start) <body = b (int64 i, bool c, float[2] v) => (bool c_, float[2] v_) {
        c_ = Identity(c)
        v_ = Mul(v, v)
    }>
}"""


def test_a_run_is_stopped_from_another_thread():
    session = InferenceSession(model(LOOP))
    options = RunOptions(logid="long")
    feeds = {"n": np.array(10**9), "start": np.ones(2, np.float32)}
    timer = threading.Timer(0.2, lambda: setattr(options, "terminate", True))
    timer.start()
    began = time.monotonic()
    with pytest.raises(RunCancelledError):
        session.run(None, feeds, options)
    timer.join()
    assert time.monotonic() - began < 30
    with pytest.raises(RunCancelledError):
        session.run(None, {**feeds, "n": np.array(3)}, options)
    options.terminate = False
    assert session.run(None, {**feeds, "n": np.array(3)}, options)[0].tolist() == [1, 1]
    with pytest.raises(ConfigError, match="RunOptions"):
        session.run(None, feeds, {"terminate": False})


def test_threads_share_a_session():
    session = InferenceSession(
        model(
            "g (float[N, M] x) => (float[N, M] y) { a = Neg(x) \n b = Exp(a) \n c = Mul(b, x) \n y = Sub(c, a) }"
        )
    )

    def work(seed):
        random = np.random.default_rng(seed)
        for _ in range(30):
            x = random.standard_normal((random.integers(1, 5), random.integers(1, 5))).astype(np.float32)
            np.testing.assert_allclose(session.run(None, {"x": x})[0], np.exp(-x) * x + x, rtol=1e-5)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, np.random.SeedSequence().generate_state(8)))


def test_runs_can_be_asynchronous(two):
    done = threading.Event()
    told = []

    def callback(*what):
        told.append(what)
        done.set()

    two.run_async(["z"], {"x": X}, callback, "mine")
    assert done.wait(10)
    ((results, user_data, error),) = told
    np.testing.assert_array_equal(results[0], -X)
    assert (user_data, error) == ("mine", "")


def test_errors_of_asynchronous_runs_are_told_to_the_callback(two):
    done = threading.Event()
    told = []
    two.run_async(
        None, {"x": X}, lambda *what: (told.append(what), done.set()), 3, RunOptions(terminate=True)
    )
    assert done.wait(10)
    assert told[0][0] == []
    assert "stop" in told[0][2]


def test_a_profile_has_loading_and_runs(tmp_path):
    options = SessionOptions(enable_profiling=True, profile_file_prefix=str(tmp_path / "prof"))
    session = InferenceSession(model(TWO), options)
    assert session.get_profiling_start_time_ns() > 1.7e18
    session.run(None, {"x": X})
    path = session.end_profiling()
    assert path.startswith(str(tmp_path / "prof_"))
    events = json.loads(Path(path).read_text("utf-8"))["traceEvents"]
    names = {event["name"] for event in events}
    assert "load" in names
    assert any("Abs" in name for name in names)
    assert session.end_profiling() == ""
    assert session.get_profiling_start_time_ns() > 1.7e18
    session.run(None, {"x": X})


def test_without_profiling_there_is_no_profile(two):
    assert two.end_profiling() == ""
    assert two.get_profiling_start_time_ns() == 0


@pytest.mark.parametrize("level", list(GraphOptimizationLevel))
@pytest.mark.parametrize("reuse", [True, False])
def test_levels_and_reuse_do_not_change_results(level, reuse):
    text = """g (float[N, 3] x) => (float[N, 3] y) {
        zero = Constant <value: tensor = float {0}> ()
        a = Add(x, zero)
        b = Identity(a)
        c = Transpose <perm = [1, 0]> (b)
        d = Transpose <perm = [1, 0]> (c)
        y = Exp(d)
    }"""
    options = SessionOptions(graph_optimization_level=level, enable_mem_reuse=reuse)
    x = np.random.default_rng().standard_normal((4, 3)).astype(np.float32)
    session = InferenceSession(model(text), options)
    for _ in range(4):
        np.testing.assert_allclose(session.run(None, {"x": x})[0], np.exp(x), rtol=1e-6)


def test_the_optimized_model_can_be_written(tmp_path):
    path = tmp_path / "optimized.onnx"
    proto = model("g (float[N] x) => (float[N] y) { a = Identity(x) \n b = Identity(a) \n y = Neg(b) }")
    InferenceSession(proto, SessionOptions(optimized_model_filepath=path))
    written = onnx.load(path)
    onnx.checker.check_model(written)
    assert [node.op_type for node in written.graph.node] == ["Neg"]
    assert InferenceSession(path).run(None, {"x": X[0]})[0].tolist() == [-1, 2]


def test_free_dimensions_are_fixed():
    options = SessionOptions()
    options.add_free_dimension_override_by_name("N", 2)
    options.add_free_dimension_override_by_name("elsewhere", 2)
    session = InferenceSession(model(TWO), options)
    assert session.get_inputs()[0].shape == [2, 2]
    assert session.get_outputs()[0].shape == [2, 2]
    session.run(None, {"x": X})
    with pytest.raises(FeedError, match="dimension 0 is 1, not 2"):
        session.run(None, {"x": X[:1]})


def test_dimensions_are_fixed_by_denotation():
    proto = model("g (float[N, M] x) => (float[N, M] y) { y = Neg(x) }")
    proto.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options = SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 3)
    assert InferenceSession(proto, options).get_inputs()[0].shape == [3, "M"]


def test_initializers_are_replaced():
    text = "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"
    options = SessionOptions()
    options.add_initializer("w", np.array([10, 20], np.float32))
    session = InferenceSession(model(text), options)
    assert session.run(None, {"x": np.zeros(2, np.float32)})[0].tolist() == [10, 20]
    for name, array, message in (
        ("ww", np.zeros(2, np.float32), "no initializer 'ww'; did you mean 'w'"),
        ("w", np.zeros(3, np.float32), r"float\[2\].*float32\[3\]"),
        ("w", np.zeros(2), "float64"),
    ):
        options = SessionOptions()
        options.add_external_initializers([name], [OrtValue.ortvalue_from_numpy(array)])
        with pytest.raises(ConfigError, match=message):
            InferenceSession(model(text), options)


def test_severities_and_ids_of_messages(caplog):
    caplog.set_level(logging.DEBUG, "onnxgen.graph.session")
    session = InferenceSession(model(TWO), SessionOptions(logid="mine", log_severity_level=1))
    assert "[mine] loaded" in caplog.text
    session.run(None, {"x": X})
    assert "runs for" not in caplog.text
    session.run(None, {"x": X}, RunOptions(logid="once", log_severity_level=0))
    assert "[mine] [once] runs for y, z" in caplog.text
    caplog.clear()
    InferenceSession(model(TWO), SessionOptions(log_severity_level=2))
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("labels", "key"), [("classlabels_int64s = [10, 20]", 7), ('classlabels_strings = ["a", "b"]', 8)]
)
def test_lists_of_dictionaries_come_out_as_from_onnx_runtime(labels, key):
    proto = model(
        f"g (float[N, 2] x) => (z) {{ z = ai.onnx.ml.ZipMap <{labels}> (x) }}",
        ir=8,
        domains=', "ai.onnx.ml" : 1',
    )
    value = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    kind = onnx.helper.make_sequence_type_proto(onnx.helper.make_map_type_proto(key, value))
    proto.graph.output[0].type.CopyFrom(kind)
    mine, other = InferenceSession(proto), onnxruntime.InferenceSession(proto.SerializeToString())
    assert mine.get_outputs()[0].type == other.get_outputs()[0].type
    x = np.array([[0.25, 0.75], [1, 0]], np.float32)
    assert mine.run(None, {"x": x}) == other.run(None, {"x": x})
    (value,) = mine.run_with_ort_values(None, {"x": x})
    assert value.data_type() == other.get_outputs()[0].type
