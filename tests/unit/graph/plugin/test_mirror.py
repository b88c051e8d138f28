import numpy as np
import pytest

from graph_models import model
from mirror import MirrorProvider, MirrorValue
from onnxgen import eager
from onnxgen.errors import RunCancelledError, UnsupportedOperatorError
from onnxgen.graph.session import (
    GraphOptimizationLevel,
    InferenceSession,
    OrtValue,
    RunOptions,
    SessionOptions,
)

BORDERS = """g (float[N, 3] x, float[N, 3] z) => (float[N, 3] y, float[N, 3] twice, float[N, 3] same) {
    weight = Constant <value: tensor = float[3, 3] {1, 2, 3, 4, 5, 6, 7, 8, 9}> ()
    a = MatMul(x, weight)
    b = Exp(z)
    c = Add(a, b)
    y = Sigmoid(c)
    twice = Add(c, c)
    same = Identity(twice)
}"""


@pytest.fixture(params=[0, 99], ids=["plain", "optimized"])
def options(request):
    return SessionOptions(graph_optimization_level=GraphOptimizationLevel(request.param))


def test_values_cross_the_border_both_ways(options):
    session = InferenceSession(model(BORDERS), options, [MirrorProvider(), "cpu"])
    weight = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
    for rows in (1, 4, 4, 4, 4, 2):
        x, z = np.random.default_rng().standard_normal((2, rows, 3)).astype(np.float32)
        y, twice, same = session.run(None, {"x": x, "z": z})
        c = x @ weight + np.exp(z)
        np.testing.assert_allclose(y, 1 / (1 + np.exp(-c)), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(twice, 2 * c, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(twice, same)
        assert all(isinstance(value, np.ndarray) for value in (y, twice, same))


def test_outputs_of_the_device_are_written_where_they_are_bound(options):
    session = InferenceSession(
        model("g (float[N] x) => (float[N] y) { y = Neg(x) }"), options, [MirrorProvider()]
    )
    y = np.zeros(3, np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", np.array([1, 2, 3], np.float32))
    binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_numpy(y))
    for _ in range(4):
        session.run_with_iobinding(binding)
    assert y.tolist() == [-1, -2, -3]


CONTROL = """g (float[N] x, bool up) => (float[N] y) {
    one = Constant <value: tensor = float {1}> ()
    a = Neg(x)
    y = If (up) <
        then_branch = t () => (float[N] u) { u = Sub(a, one) },
        else_branch = e () => (float[N] v) { w = Exp(a) \n v = Mul(w, a) }
    >
}"""


def test_graphs_inside_control_flow_use_the_device(options):
    session = InferenceSession(model(CONTROL), options, [MirrorProvider(), "cpu"])
    x = np.array([1, -2], np.float32)
    for _ in range(4):
        assert session.run(None, {"x": x, "up": np.array(True)})[0].tolist() == [-2, 1]
        np.testing.assert_allclose(
            session.run(None, {"x": x, "up": np.array(False)})[0], np.exp(-x) * -x, rtol=1e-5
        )


def test_placement_says_who_runs_what_and_why(options):
    session = InferenceSession(model(BORDERS), options, [MirrorProvider(), "cpu"])
    rows = session.executable.placement.table()
    who = {(row.operator.partition("-")[0], row.provider) for row in rows}
    assert {("MatMul", "mirror"), ("Exp", "cpu"), ("Sigmoid", "cpu")} <= who
    assert {row.declined.get("mirror") for row in rows if row.provider == "cpu"} == {"has no kernel for it"}
    with pytest.raises(UnsupportedOperatorError, match="mirror: has no kernel for it"):
        InferenceSession(model("g (float[N] x) => (float[N] y) { y = Exp(x) }"), options, [MirrorProvider()])


def test_options_reach_the_provider():
    assert MirrorProvider("2").min_rank == 2
    session = InferenceSession(
        model("g (float[N] x) => (float[N] y) { y = Neg(x) }"), providers=[MirrorProvider(2), "cpu"]
    )
    assert session.run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [-1, -1]


def test_a_stopped_run_is_stopped():
    session = InferenceSession(model(BORDERS), providers=[MirrorProvider(), "cpu"])
    x = np.ones((1, 3), np.float32)
    with pytest.raises(RunCancelledError):
        session.run(None, {"x": x, "z": x}, RunOptions(terminate=True))


def test_eager_calls_come_back_to_the_host():
    mirror = MirrorProvider()
    on_device = eager.context(providers=[mirror, "cpu"])
    x = np.array([[1, -2], [3, 4]], np.float32)
    assert on_device.Sub(x, 1).tolist() == (x - 1).tolist()
    np.testing.assert_allclose(on_device.MatMul(x, x), x @ x)
    np.testing.assert_allclose(on_device.Exp(x), np.exp(x), rtol=1e-6)


def test_values_of_the_device_are_not_arrays():
    value = MirrorProvider().to_device(np.array([1, 2], np.float32))
    assert isinstance(value, MirrorValue)
    with pytest.raises(TypeError):
        _ = value + 1
