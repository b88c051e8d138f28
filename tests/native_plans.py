"""Plans of tiny decoders, and the check that a rewrite of a plan computes the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onnxgen.backends.base import DecoderModel
from onnxgen.backends.native.lower import lower_decoder
from onnxgen.backends.native.plan import Family, StepPlan
from onnxgen.graph.loader import load_graph
from plan_oracle import PlanOracle
from tiny_decoders import Sizes, Style, TinyDecoder, decoder_model

TOKENS = [7, 3, 9, 60, 0, 3, 3, 12, 44, 5, 31, 8]


def tiny_plan(folder: Path, sizes: Sizes | None = None, style: Style | None = None) -> StepPlan:
    """The plan of a tiny decoder, before any rewrite."""
    model = tiny_model(folder, sizes, style)
    return lower_decoder(load_graph(model.path), model)


def tiny_model(folder: Path, sizes: Sizes | None = None, style: Style | None = None) -> DecoderModel:
    """A tiny decoder."""
    return decoder_model(TinyDecoder(sizes or Sizes(), 5), style or Style(), folder / "model.onnx")


def check_same(before: StepPlan, after: StepPlan, folder: Path, *, switch_length: int | None = None) -> None:
    """Both plans give the same logits, and hidden states if there are any."""
    old, new = (PlanOracle(plan, folder, switch_length=switch_length) for plan in (before, after))
    assert np.abs(old.logits(TOKENS) - new.logits(TOKENS)).max() < 1e-9
    if before.hidden_states is not None:
        assert np.abs(old.hidden(TOKENS) - new.hidden(TOKENS)).max() < 1e-9
    check_integrity(after)


def check_integrity(plan: StepPlan) -> None:
    """Every view lies in a buffer, every read was written before, every name is there."""
    written: set[str] = set()
    for call in plan.calls:
        for view in (*call.reads.values(), *call.writes.values()):
            assert view.offset + view.width <= plan.buffers[view.buffer].width
        missing = {view.buffer for view in call.reads.values()} - written
        assert not missing, f"{call.family} reads {missing} before it is written"
        written |= {view.buffer for view in call.writes.values()}
        assert set(call.weights.values()) <= plan.weights.keys()
    assert plan.logits.buffer in written
    assert written == plan.buffers.keys(), "buffers that nobody writes"


def families(plan: StepPlan) -> list[Family]:
    """What the plan calls."""
    return [call.family for call in plan.calls]
