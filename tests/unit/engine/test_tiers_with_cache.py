"""Sequences whose content goes through memory and disk and back, on a backend that notices any wrong token."""

import secrets

import numpy as np
import pytest

from onnxgen.backends.fake import FakeBackend
from tier_world import LONGEST, World

SEED = secrets.randbits(32)


KINDS = {
    "pages": {"block_size": 4},
    "pages and windows": {"block_size": 4, "window": 6},
    "slots": {},
    "states": {"rewind": False},
}


def world_of(kind, folder, *, host_bytes, disk_bytes):
    print(f"seed {SEED}")  # shown when a test fails
    backend = FakeBackend(5, max_context=LONGEST, **KINDS[kind])

    def check(row, tokens):
        assert np.array_equal(row, backend.logits_after(tokens)), f"after {tokens}"

    return World(backend, check, seed=SEED, folder=folder, host_bytes=host_bytes, disk_bytes=disk_bytes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budgets", [(600, 0), (600, 900), (0, 900), (100, 10**6)])
def test_content_that_went_through_tiers_is_what_it_was(kind, budgets, tmp_path):
    world = world_of(kind, tmp_path, host_bytes=budgets[0], disk_bytes=budgets[1])
    for _ in range(400):
        world.anything()
    usage = world.tiers.usage()
    assert usage.failures == 0
    assert usage.saved > 0
    assert usage.loaded > 0
    world.end()
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_tiers_that_fail_now_and_then_change_no_answer(kind, tmp_path, monkeypatch):
    world = world_of(kind, tmp_path, host_bytes=500, disk_bytes=900)
    monkeypatch.setattr("onnxgen.engine.block_mover._log.warning", lambda *_: None)

    def sometimes(real, failure):
        return lambda *args: failure if world.random.random() < 0.3 else real(*args)

    world.mover.save = sometimes(world.mover.save, None)
    world.mover.to_disk = sometimes(world.mover.to_disk, False)
    world.mover.load = sometimes(world.mover.load, False)
    for _ in range(400):
        world.anything()
    assert world.tiers.usage().failures > 0
    world.end()
