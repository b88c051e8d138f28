"""Sequences whose content goes through memory and disk and back, on a backend that notices any wrong token."""

import random
import secrets

import numpy as np
import pytest

from onnxgen.backends.base import BlockCopy, SequenceInput, pack_step
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.block_mover import CacheBlockMover
from onnxgen.engine.pool_shape import shape_of
from onnxgen.kvcache.manager import CacheManager
from onnxgen.kvcache.tiers import Tiers

SEED = secrets.randbits(32)
LONGEST = 32


class World:
    """A tiny pool, tiers that are tiny too, and sequences that come, grow, give way and go."""

    def __init__(self, seed, folder, *, host_bytes, disk_bytes, **options):
        self.random = random.Random(seed)
        self.backend = FakeBackend(5, max_context=LONGEST, **options)
        windowed = options.get("window") is not None
        self.cache = self.backend.create_cache(num_seqs=3, num_tokens=LONGEST, window_group=windowed)
        self.mover = CacheBlockMover(self.cache, folder=folder if disk_bytes else None)
        self.tiers = Tiers(self.mover, host_bytes=host_bytes, disk_bytes=disk_bytes)
        shape = shape_of(self.cache.geometry, self.backend.capabilities, snapshot_tokens=8)
        self.blocks = CacheManager(shape, tiers=self.tiers)
        self.tokens: dict[int, list[int]] = {}
        self.next = 0
        self.finished: list[list[int]] = []

    def begin(self):
        known = self.random.choice(self.finished) if self.finished else []
        prompt = known[: self.random.randint(0, len(known))]
        prompt = prompt + [self.random.randrange(5) for _ in range(self.random.randint(1, 9))]
        prompt = prompt[: LONGEST - 1]
        promised = self.blocks.would_reuse(prompt)
        assert self.blocks.open(self.next, prompt) <= promised
        self.tokens[self.next] = prompt
        self.next += 1

    def step(self):
        """One step of those who can, with any chunks; what they hold must be what their tokens say."""
        reservation, parts, took = self.blocks.begin_step(), [], []
        for seq, tokens in self.tokens.items():
            left = len(tokens) - self.blocks.length(seq)
            if self.blocks.is_swapped(seq) or self.random.random() < 0.2:
                continue
            count = reservation.extend(seq, self.random.randint(1, left))
            if count:
                start = reservation.context_len(seq)
                new, windows = tokens[start : start + count], list(reservation.window_blocks(seq))
                parts.append(SequenceInput(new, start, list(reservation.blocks(seq)), window_blocks=windows))
                took.append((seq, start + count))
        if not parts:
            return
        copies = [BlockCopy(c.source, c.target, c.num_tokens, c.group) for c in reservation.copies()]
        logits = self.backend.execute(pack_step(parts, copies=copies), self.cache).logits
        for (seq, end), row in zip(took, logits, strict=True):
            tokens = self.tokens[seq]
            assert np.array_equal(row, self.backend.logits_after(tokens[:end])), f"sequence {seq} at {end}"
            reservation.commit(seq, tokens)
            if end == len(tokens) and end < LONGEST:
                tokens.append(int(row.argmax()))

    def finish(self, seq):
        tokens = self.tokens.pop(seq)
        self.finished = [*self.finished[-6:], tokens]
        self.blocks.release(seq, tokens if self.random.random() < 0.9 else None)

    def anything(self):
        seqs = list(self.tokens)
        match self.random.choice(["begin", "step", "step", "step", "finish", "swap", "swap"]):
            case "begin" if len(seqs) < 6:
                self.begin()
            case "step":
                self.step()
            case "finish" if seqs:
                self.finish(self.random.choice(seqs))
            case "swap" if seqs:
                seq = self.random.choice(seqs)
                if self.blocks.is_swapped(seq):
                    self.blocks.swap_in(seq)
                else:
                    self.blocks.swap_out(seq)
            case _:
                pass
        for seq, tokens in list(self.tokens.items()):
            if len(tokens) == LONGEST and self.blocks.length(seq) == LONGEST:
                self.finish(seq)
        self.blocks.check_integrity()
        self.tiers.check_integrity()

    def end(self):
        for seq in list(self.tokens):
            self.finish(seq)
        self.blocks.forget_prefixes()
        self.blocks.check_integrity()
        usage = self.blocks.usage()
        assert usage.full.free == usage.full.total
        assert usage.window is None or usage.window.free == usage.window.total
        assert self.tiers.usage().num_items == 0
        self.mover.close()


KINDS = {
    "pages": {"block_size": 4},
    "pages and windows": {"block_size": 4, "window": 6},
    "slots": {},
    "states": {"rewind": False},
}


@pytest.fixture
def seed():
    print(f"seed {SEED}")  # shown when a test fails
    return SEED


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budgets", [(600, 0), (600, 900), (0, 900), (100, 10**6)])
def test_content_that_went_through_tiers_is_what_it_was(kind, budgets, seed, tmp_path):
    world = World(seed, tmp_path, host_bytes=budgets[0], disk_bytes=budgets[1], **KINDS[kind])
    for _ in range(400):
        world.anything()
    usage = world.tiers.usage()
    assert usage.failures == 0
    assert usage.saved > 0
    assert usage.loaded > 0
    world.end()
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_tiers_that_fail_now_and_then_change_no_answer(kind, seed, tmp_path, monkeypatch):
    world = World(seed, tmp_path, host_bytes=500, disk_bytes=900, **KINDS[kind])
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
