"""Which layers have a window: by what reads their cache."""

from __future__ import annotations

from onnxgen.backends.native.plan import Buffer, CacheLayer, Call, Family, RowKind, StepPlan, View
from onnxgen.backends.native.windows import layer_windows


def plan_of(windows_of_caches: list[list[int]]) -> StepPlan:
    """A plan of attention alone: for each cache, the windows of its readers, 0 for none."""
    view = View("x", 0, 64)
    calls = tuple(
        Call(
            Family.ATTEND,
            RowKind.TOKENS,
            {"query": view},
            {"y": view},
            {},
            {"cache": cache, "window": window},
        )
        for cache, windows in enumerate(windows_of_caches)
        for window in windows
    )
    layers = tuple(CacheLayer(1, 64) for _ in windows_of_caches)
    return StepPlan(calls, {"x": Buffer(RowKind.TOKENS, 64)}, {}, layers, view)


def test_each_layer_has_its_own():
    assert layer_windows(plan_of([[0], [512], [7]]), context=4096) == (None, 512, 7)


def test_a_window_that_holds_every_sequence_is_none():
    assert layer_windows(plan_of([[100], [99]]), context=100) == (None, 99)


def test_of_several_readers_the_one_that_sees_most_counts():
    assert layer_windows(plan_of([[5, 9], [5, 0]]), context=100) == (9, None)
