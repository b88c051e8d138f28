"""A cache, its accounting and its tiers at work: sequences come, share, grow, give way and go."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np

from onnxgen.backends.base import Backend, BlockCopy, SequenceInput, pack_step
from onnxgen.engine.block_mover import CacheBlockMover
from onnxgen.engine.pool_shape import shape_of
from onnxgen.kvcache.manager import CacheManager
from onnxgen.kvcache.tiers import Tiers

LONGEST = 32
"""Tokens of a sequence, at most."""


class World:
    """A tiny pool, tiers that are tiny too, and sequences that come, grow, give way and go.

    Args:
        backend: Whose cache it is.
        check: Called with a row of logits and the tokens before it: whether they belong together.
        seed: What happens.
        folder: For the tier on disk.
        host_bytes: Room in memory.
        disk_bytes: Room on disk.
        vocab: Tokens of prompts are below this.
    """

    def __init__(
        self,
        backend: Backend,
        check: Callable[[np.ndarray, list[int]], None],
        *,
        seed: int,
        folder: Path,
        host_bytes: int,
        disk_bytes: int,
        vocab: int = 5,
    ) -> None:
        self.random = random.Random(seed)
        self.backend, self.check, self.vocab = backend, check, vocab
        windowed = backend.capabilities.window is not None
        self.cache = backend.create_cache(num_seqs=3, num_tokens=LONGEST, window_group=windowed)
        self.mover = CacheBlockMover(self.cache, folder=folder if disk_bytes else None)
        self.tiers = Tiers(self.mover, host_bytes=host_bytes, disk_bytes=disk_bytes)
        shape = shape_of(self.cache.geometry, self.backend.capabilities, snapshot_tokens=8)
        self.blocks = CacheManager(shape, tiers=self.tiers)
        self.tokens: dict[int, list[int]] = {}
        self.next = 0
        self.finished: list[list[int]] = []

    def begin(self) -> None:
        """Open a sequence that may begin like one before."""
        known = self.random.choice(self.finished) if self.finished else []
        prompt = known[: self.random.randint(0, len(known))]
        prompt = prompt + [self.random.randrange(self.vocab) for _ in range(self.random.randint(1, 9))]
        prompt = prompt[: LONGEST - 1]
        promised = self.blocks.would_reuse(prompt)
        assert self.blocks.open(self.next, prompt) <= promised
        self.tokens[self.next] = prompt
        self.next += 1

    def step(self) -> None:
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
            self.check(row, tokens[:end])
            reservation.commit(seq, tokens)
            if end == len(tokens) and end < LONGEST:
                tokens.append(int(row.argmax()))

    def finish(self, seq: int) -> None:
        """End a sequence; mostly it is kept for others."""
        tokens = self.tokens.pop(seq)
        self.finished = [*self.finished[-6:], tokens]
        self.blocks.release(seq, tokens if self.random.random() < 0.9 else None)

    def anything(self) -> None:
        """Do one thing, and check all books."""
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

    def end(self) -> None:
        """End all; nothing may be left."""
        for seq in list(self.tokens):
            self.finish(seq)
        self.blocks.forget_prefixes()
        self.blocks.check_integrity()
        usage = self.blocks.usage()
        assert usage.full.free == usage.full.total
        assert usage.window is None or usage.window.free == usage.window.total
        assert self.tiers.usage().num_items == 0
        self.mover.close()
