"""Buffers that are alive at the same time never share memory, and others do."""

from __future__ import annotations

from pathlib import Path

import pytest

from native_plans import tiny_plan
from onnxgen.backends.native.fuse import fuse_plan
from onnxgen.backends.native.memory_plan import plan_memory, row_bytes
from onnxgen.backends.native.plan import Buffer, Elements, Family, RowKind, StepPlan
from tiny_decoders import Sizes, Style

STYLES = [Style(), Style(hidden_states=True), Style(rotary="op", pruned_head="slice")]


def lifetimes(plan: StepPlan) -> dict[str, tuple[int, int]]:
    """From the first write to the last read."""
    found: dict[str, tuple[int, int]] = {}
    for index, call in enumerate(plan.calls):
        for view in (*call.writes.values(), *call.reads.values()):
            start, _ = found.get(view.buffer, (index, index))
            found[view.buffer] = (start, index)
    for result in (plan.logits, plan.hidden_states):
        if result is not None:
            found[result.buffer] = (found[result.buffer][0], len(plan.calls))
    return found


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("style", STYLES)
def test_no_two_live_buffers_share_a_place(tmp_path: Path, style: Style, *, fused: bool):
    plan = tiny_plan(tmp_path, Sizes(layers=3, soft_cap=2.0), style)
    plan = fuse_plan(plan) if fused else plan
    memory, alive = plan_memory(plan), lifetimes(plan)
    assert memory.place_of.keys() | memory.given.keys() == plan.buffers.keys()
    in_place = {
        (c.reads["x"].buffer, c.writes["y"].buffer)
        for c in plan.calls
        if c.family in (Family.MAP, Family.ADD, Family.MULTIPLY)
    }
    for one, place in memory.place_of.items():
        assert memory.places[place].row_bytes >= row_bytes(plan.buffers[one])
        assert memory.places[place].rows is plan.buffers[one].rows
        for other, its in memory.place_of.items():
            if one < other and place == its:
                (start, end), (begin, stop) = alive[one], alive[other]
                apart = end < begin or stop < start
                touching = end == begin or stop == start
                chained = (one, other) in in_place or (other, one) in in_place
                assert apart or (touching and chained), (one, other)


def test_layers_use_the_same_memory(tmp_path: Path):
    few, many = (plan_memory(fuse_plan(tiny_plan(tmp_path, Sizes(layers=n)))) for n in (2, 9))
    assert len(few.places) == len(many.places)


def test_the_logits_and_what_becomes_them_lie_where_the_caller_wants_them(tmp_path: Path):
    plan = fuse_plan(tiny_plan(tmp_path, Sizes(soft_cap=2.0)))
    head, cap = plan.calls[-2:]
    assert (head.family, cap.family) == (Family.PRODUCT, Family.MAP)
    given = plan_memory(plan).given
    assert given[head.writes["y"].buffer] == given[cap.writes["y"].buffer] == "logits"


def test_a_row_of_integers_has_scales_and_sums_on_lines_of_their_own():
    assert row_bytes(Buffer(RowKind.TOKENS, 100)) == 448
    assert row_bytes(Buffer(RowKind.TOKENS, 100, Elements.INT8, 32)) == 128 + 64 + 64
    assert row_bytes(Buffer(RowKind.TOKENS, 100, Elements.INT16, 16)) == 256 + 64 + 64
