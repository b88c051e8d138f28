"""A plan as people read it."""

from __future__ import annotations

from pathlib import Path

from native_plans import tiny_plan
from onnxgen.backends.native.fuse import fuse_plan
from onnxgen.backends.native.plan_text import plan_text


def test_every_call_has_a_line_with_what_it_does_and_for_whom(tmp_path: Path):
    plan = fuse_plan(tiny_plan(tmp_path))
    lines = plan_text(plan).splitlines()
    assert len(lines) == len(plan.calls) + 3
    assert lines[0].split() == ["rows", "call", "result", "arguments", "nodes"]
    assert lines[1].split()[:3] == ["tokens", "embed", "b0[32]"]
    assert "table=61x32 float32" in lines[1]
    gate = next(line for line in lines if "epilogue=silu" in line)
    assert "48x32 float32 x 48x32 float32" in gate
    assert "/Sigmoid" in gate and gate.count(" + ") >= 3
    assert lines[-2].startswith("logits: b")
    assert lines[-1].startswith("hidden states: b")
