"""Plans survive the way through the user's cache, and a second load imports nothing that could parse a graph."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from native_plans import tiny_model, tiny_plan
from onnxgen.backends.native.fuse import fuse_plan
from onnxgen.backends.native.plan_json import plan_from_json, plan_to_json
from onnxgen.backends.native.plan_store import PlanStore
from tiny_decoders import Sizes, Style


@pytest.mark.parametrize("style", [Style(), Style(rotary="op", hidden_states=True)])
def test_a_plan_comes_back_as_it_was(tmp_path: Path, style: Style):
    for plan in (tiny_plan(tmp_path, Sizes(rope_switch=7), style), fuse_plan(tiny_plan(tmp_path))):
        assert plan_from_json(plan_to_json(plan)) == plan


def test_a_plan_is_found_until_the_model_changes(tmp_path: Path):
    model, store = tiny_model(tmp_path), PlanStore(tmp_path / "plans")
    key, plan = store.key(model), fuse_plan(tiny_plan(tmp_path))
    assert key is not None
    assert store.load(key) is None
    store.save(key, plan)
    assert store.load(key) == plan
    assert store.key(dataclasses.replace(model, rope_switch_length=9)) != key
    assert store.key(dataclasses.replace(model, outputs={"logits": "other"})) != key
    os.utime(model.path, ns=(1, 1))
    assert store.key(model) != key


def test_models_in_memory_are_not_kept(tmp_path: Path):
    model = tiny_model(tmp_path)
    assert PlanStore(tmp_path).key(dataclasses.replace(model, model_bytes=model.path.read_bytes())) is None


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-9], lambda b: b.replace(b"norm", b"morn"), lambda b: b""],
    ids=["cut short", "changed", "empty"],
)
def test_a_damaged_plan_is_as_good_as_none(tmp_path: Path, damage):
    store, plan = PlanStore(tmp_path), tiny_plan(tmp_path)
    store.save("key", plan)
    path = tmp_path / "key.plan"
    path.write_bytes(damage(path.read_bytes()))
    assert store.load("key") is None


def test_a_folder_that_cannot_be_written_costs_nothing_else(tmp_path: Path):
    (tmp_path / "file").write_text("")
    PlanStore(tmp_path / "file").save("key", tiny_plan(tmp_path))
    assert PlanStore(tmp_path / "file").load("key") is None


def test_a_second_load_parses_nothing(tmp_path: Path):
    tiny_model(tmp_path)
    code = f"""
import sys
from pathlib import Path
from onnxgen.backends.base import DecoderModel
from onnxgen.backends.native.prepared import prepare
from onnxgen.foundations.runtime_config import RuntimeConfig
model = DecoderModel(Path({str(tmp_path / "model.onnx")!r}), {{}}, {{}}, num_layers=2, vocab_size=61, context_length=40)
plan = prepare(model, RuntimeConfig(cache_dir=Path({str(tmp_path)!r}))).plan
print(len(plan.calls), [m for m in ("onnx", "onnx_ir", "numba", "llvmlite", "onnxruntime") if m in sys.modules])
"""
    first, second = (
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    )
    assert "'onnx'" in first
    assert second.split(" ", 1) == [first.split(" ", 1)[0], "[]\n"]
