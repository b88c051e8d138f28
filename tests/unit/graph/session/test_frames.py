"""How much memory stays with a session between runs, and what is left of one that is gone."""

from __future__ import annotations

import gc
import linecache
import traceback
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import numpy as np
import pytest

from graph_models import model
from graph_running import all_outputs, compiled, prepared_outputs
from onnxgen.graph.cpu.provider import CpuProvider
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import Claim
from onnxgen.graph.session import InferenceSession
from onnxgen.graph.session import compile as session_compile
from onnxgen.graph.session.executor import Executable
from onnxgen.graph.session.frames import ArenaBudget, FramePool

F = np.float32
CHAIN = "g (float[N] x) => (float[N] y) { a = Neg (x)  b = Relu (a)  c = Add (b, a)  y = Mul (c, c) }"
LOOP = """
g (float[N] x) => (float[N] y) {
    trips = Constant <value = int64 {4}> ()
    yes = Constant <value = bool {1}> ()
    y = Loop (trips, yes, x) <body = body (int64 i, bool go, float[N] s) => (bool on, float[N] t) {
        on = Identity (go)
        a = Neg (s)
        b = Abs (a)
        t = Add (b, s)
    }>
}
"""


def with_budget(monkeypatch: pytest.MonkeyPatch, limit_bytes: int, model: str = CHAIN) -> Executable:
    monkeypatch.setattr(session_compile, "ArenaBudget", lambda: ArenaBudget(limit_bytes))
    return compiled(model)


def pools(executable: Executable) -> list[FramePool]:
    return [pool for _, pool in executable._routine._prepared.values()]


def test_arenas_used_longest_ago_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = with_budget(monkeypatch, 20_000)
    for size in (1000, 1001, 1000, 1002):
        x = np.full(size, -1, F)
        np.testing.assert_array_equal(prepared_outputs(executable, {"x": x})[0], np.full(size, 4, F))
    kept = [pool.num_bytes > 0 for pool in pools(executable)]
    assert kept == [True, False, True]
    assert sum(pool.num_bytes for pool in pools(executable)) <= 20_000
    x = np.full(1001, -1, F)
    np.testing.assert_array_equal(all_outputs(executable, {"x": x})[0], np.full(1001, 4, F))
    assert [pool.num_bytes > 0 for pool in pools(executable)] == [False, True, True]


def test_an_arena_larger_than_the_budget_is_kept_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = with_budget(monkeypatch, 1)
    for size in (10, 1000):
        prepared_outputs(executable, {"x": np.ones(size, F)})
    small, large = pools(executable)
    assert small.num_bytes == 0
    assert large.num_frames == 1


class Meeting(CpuProvider):
    """The cpu provider, whose ``Relu`` waits until as many runs are there."""

    name = "meeting"

    def __init__(self) -> None:
        self.barrier: Barrier | None = None

    def compile(self, node: NodeSpec, claim: Claim) -> Kernel:
        kernel = super().compile(node, claim)
        if node.op_type != "Relu":
            return kernel

        def into(*values: np.ndarray) -> None:
            if self.barrier is not None:
                self.barrier.wait(20)
            assert kernel.into is not None
            kernel.into(*values)

        return Kernel(kernel.run, into)


@pytest.mark.parametrize(("limit_bytes", "kept"), [(1 << 20, 3), (1, 1)])
def test_frames_of_runs_at_the_same_time_are_kept_as_far_as_they_fit(
    monkeypatch: pytest.MonkeyPatch, limit_bytes: int, kept: int
) -> None:
    monkeypatch.setattr(session_compile, "ArenaBudget", lambda: ArenaBudget(limit_bytes))
    provider = Meeting()
    executable = compiled(CHAIN, [provider])
    x = np.ones(100, F)
    prepared_outputs(executable, {"x": x})
    provider.barrier = Barrier(3)
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda _: all_outputs(executable, {"x": x}), range(3)))
    (pool,) = pools(executable)
    assert pool.num_frames == kept


def test_graphs_inside_share_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = ArenaBudget(10_000)
    monkeypatch.setattr(session_compile, "ArenaBudget", lambda: budget)
    executable = compiled(LOOP)
    for size in (1000, 1001, 1002):
        np.testing.assert_array_equal(
            all_outputs(executable, {"x": np.ones(size, F)})[0], np.full(size, 16, F)
        )
    assert len(budget._pools) == 3
    assert 0 < sum(pool.num_bytes for pool in budget._pools) <= 10_000


def test_however_many_choices_of_outputs_cost_a_bounded_number_of_plans() -> None:
    outputs = [f"y{i}" for i in range(7)]
    lines = " ".join(f"{name} = Neg (x)" for name in outputs)
    executable = compiled(f"g (float[N] x) => ({', '.join(f'float[N] {n}' for n in outputs)}) {{ {lines} }}")
    for choice in range(1, 128):
        names = [name for i, name in enumerate(outputs) if choice >> i & 1]
        for _ in range(3):
            assert len(executable.run({"x": np.ones(2, F)}, names)) == len(names)
    routine = executable._routine
    assert len(routine._functions) <= 32
    assert len(routine._prepared) <= 32
    assert len(routine._preparation._plans) <= 32


@contextmanager
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("text", [CHAIN, LOOP])
def test_a_session_that_is_gone_leaves_no_memory_to_the_garbage_collector(text: str) -> None:
    class Weights(CpuProvider):
        name = "weights"

        def __init__(self) -> None:
            self.arenas: list[weakref.ref[np.ndarray]] = []

        def allocate(self, num_bytes: int) -> np.ndarray:
            arena = super().allocate(num_bytes)
            self.arenas.append(weakref.ref(arena))
            return arena

    provider = Weights()
    with no_collector():
        session = InferenceSession(model(text), providers=[provider])
        for _ in range(4):
            session.run(None, {"x": np.ones(3, F)})
        executable = weakref.ref(session.executable)
        assert provider.arenas
        del session
        assert executable() is None
        assert [arena() for arena in provider.arenas] == [None] * len(provider.arenas)


def test_weights_go_with_their_session() -> None:
    proto = model("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul (x, w) }")
    with no_collector():
        session = InferenceSession(proto)
        (call,) = session.executable._routine.program.calls
        array = session.executable._routine.program.constants[call.inputs[1]]
        while isinstance(array.base, np.ndarray):
            array = array.base
        memory = weakref.ref(array)
        del array, call, session
        assert memory() is None


def test_the_source_of_plans_goes_with_them() -> None:
    def failing() -> str:
        executable = compiled(
            "g (float[N] x, int64[2] s) => (float[M, K] y) { a = Neg (x)  y = Reshape (a, s) }"
        )
        feeds = {"x": np.ones(6, F), "s": np.array([4, 4])}
        with pytest.raises(RuntimeError) as caught:
            all_outputs(executable, feeds)
        return "".join(traceback.format_exception(caught.value))

    before = set(linecache.cache)
    assert "v3 = Reshape_1(v2, v1)" in failing()
    gc.collect()  # the error, its traceback and their frames refer to each other
    assert not [name for name in set(linecache.cache) - before if "plan" in name]
