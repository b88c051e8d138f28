"""A group of blocks for windowed layers changes no bit, whatever becomes of the blocks that windows have left behind."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints import CHECKPOINTS, write_checkpoint
from onnxgen.backends.base import FULL, WINDOW, BlockCopy, SequenceInput, pack_step
from onnxgen.backends.native import running
from onnxgen.backends.native.backend import NativeBackend
from onnxgen.builder import BuildOptions, build
from onnxgen.errors import StepError
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec

SEED = secrets.randbits(32)
LENGTH = 90
WINDOWS = {"gemma3": 5, "qwen2-window": 6, "mistral": 4, "phi3": 9}
"""Models some or all of whose layers see a window, and what it is."""


@dataclass(repr=False)
class Loaded:
    """A backend, and prompts with the logits that they get without a group of windows."""

    backend: NativeBackend
    window: int
    alone: list[tuple[list[int], np.ndarray]]


@pytest.fixture(scope="module", params=WINDOWS)
def loaded(request, tmp_path_factory):
    print(f"seed {SEED}")
    folder = tmp_path_factory.mktemp("model")
    checkpoint = write_checkpoint(CHECKPOINTS[request.param], folder / "checkpoint")
    build(checkpoint, folder / "model", options=BuildOptions(precision="bf16"))
    model = load_model_spec(folder / "model").decoder
    backend = NativeBackend(model, RuntimeConfig(threads=2, cache_dir=folder), block_size=16)
    rng, alone = np.random.default_rng(SEED), []
    for _ in range(3):
        prompt = rng.integers(3, model.vocab_size, LENGTH).tolist()
        cache = backend.create_cache(num_seqs=1, num_tokens=LENGTH)
        blocks = list(range(cache.geometry.num_blocks))
        step = pack_step([SequenceInput(prompt, 0, blocks, logits="all")])
        alone.append((prompt, backend.execute(step, cache).logits))
    yield Loaded(backend, WINDOWS[request.param], alone)
    backend.close()


@dataclass
class Row:
    """A sequence: which prompt, how far, and its blocks in each group, -1 where one was given back."""

    prompt: int
    length: int = 0
    tables: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))


class Crowd:
    """Sequences whose window blocks are given back, scribbled over and used again as soon as no window reaches them."""

    def __init__(self, loaded: Loaded, seed: int) -> None:
        self.loaded, self.rng = loaded, np.random.default_rng(seed)
        self.cache = loaded.backend.create_cache(num_seqs=6, num_tokens=LENGTH, window_group=True)
        geometry = self.cache.geometry
        self.size = geometry.block_size
        self.free = [self.rng.permutation(n).tolist() for n in (geometry.num_blocks, geometry.window_blocks)]
        self.owners = [Counter[int](), Counter[int]()]
        self.rows: list[Row] = []
        self.copies: list[BlockCopy] = []

    def first(self, length: int) -> int:
        """The first window block that a sequence of so many tokens still needs."""
        return max(length - self.loaded.window + 1, 0) // self.size

    def take(self, group: int) -> int:
        block = self.free[group].pop()
        self.owners[group][block] = 1
        return block

    def share(self, group: int, blocks: Sequence[int]) -> list[int]:
        self.owners[group].update(block for block in blocks if block >= 0)
        return list(blocks)

    def give_back(self, block: int) -> None:
        """A window block that a sequence no longer needs; who needs it next must not care what it holds."""
        self.owners[WINDOW][block] -= 1
        if not self.owners[WINDOW][block]:
            self.cache.areas[WINDOW]._blocks[block] = self.rng.choice([0, 0x7F, 0xFF])
            self.free[WINDOW].append(block)

    def join(self, prompt: int, sharing: int | None) -> None:
        """A new sequence, which may begin with the full blocks of another."""
        if len(self.rows) == 6:
            return
        row = Row(prompt)
        if sharing is not None and self.rows:
            other = self.rows[sharing % len(self.rows)]
            full = other.length // self.size
            held = other.tables[WINDOW][self.first(full * self.size) : full]
            if other.prompt == prompt and full * self.size < LENGTH and -1 not in held:
                row.length = full * self.size
                row.tables = tuple(self.share(g, other.tables[g][:full]) for g in (FULL, WINDOW))
        self.rows.append(row)

    def fork(self, which: int) -> None:
        """A copy of a sequence, with blocks of its own for what is not a full block."""
        if not self.rows or len(self.rows) == 6 or self.copies:
            return
        row = self.rows[which % len(self.rows)]
        full, rest = divmod(row.length, self.size)
        if not rest or row.length == LENGTH:
            return
        tables = tuple(self.share(g, row.tables[g][:full]) for g in (FULL, WINDOW))
        for group in (FULL, WINDOW):
            own = self.take(group)
            self.copies.append(BlockCopy(row.tables[group][full], own, rest, group=group))
            tables[group].append(own)
        self.rows.append(Row(row.prompt, row.length, tables))

    def step(self, news: Sequence[int]) -> None:
        parts, wanted = [], []
        for index, row in enumerate(self.rows):
            count = min(news[index % len(news)], LENGTH - row.length)
            if not count:
                continue
            for group in (FULL, WINDOW):
                while len(row.tables[group]) * self.size < row.length + count:
                    row.tables[group].append(self.take(group))
            tokens, expected = self.loaded.alone[row.prompt]
            full, window = map(list, row.tables)
            span = slice(row.length, row.length + count)
            parts.append(SequenceInput(tokens[span], row.length, full, logits="all", window_blocks=window))
            wanted.append(expected[span])
            row.length += count
        if not parts:
            return
        logits = self.loaded.backend.execute(pack_step(parts, copies=self.copies), self.cache).logits
        assert np.array_equal(logits.view(np.uint32), np.concatenate(wanted).view(np.uint32))
        self.copies = []
        for row in self.rows:
            for number in range(self.first(row.length)):
                if row.tables[WINDOW][number] >= 0:
                    self.give_back(row.tables[WINDOW][number])
                    row.tables[WINDOW][number] = -1


joins = st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(0, 5)), max_size=2)
schedules = st.lists(
    st.tuples(joins, st.none() | st.integers(0, 5), st.lists(st.integers(0, 40) | st.just(1), min_size=1, max_size=5)),
    min_size=1,
    max_size=8,
)  # fmt: skip


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(schedule=schedules, most=st.sampled_from([7, 256]), seed=st.integers(0, 2**32 - 1))
def test_a_group_of_windows_changes_no_bit(loaded: Loaded, schedule, most, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "MOST_TOKENS", most)  # where passes are cut; memory is for 256
        crowd = Crowd(loaded, seed)
        for joined, fork, news in schedule:
            for prompt, sharing in joined or [(0, None)]:
                crowd.join(prompt, sharing)
            if fork is not None:
                crowd.fork(fork)
            crowd.step(news)
        crowd.cache.close()


def test_one_token_at_a_time_two_window_blocks_are_enough(loaded: Loaded):
    crowd = Crowd(loaded, SEED)
    crowd.free[WINDOW] = crowd.free[WINDOW][:2]
    crowd.join(0, None)
    for _ in range(LENGTH):
        crowd.step([1])
    assert crowd.rows[0].length == LENGTH


def test_what_a_step_needs_of_the_group_is_checked(loaded: Loaded):
    backend = loaded.backend
    assert backend.capabilities.window == loaded.window
    grouped = backend.create_cache(num_seqs=1, num_tokens=LENGTH, window_group=True)
    plain = backend.create_cache(num_seqs=1, num_tokens=LENGTH)
    assert plain.geometry.window_blocks == 0
    assert plain.geometry.block_bytes == grouped.geometry.block_bytes + grouped.geometry.window_block_bytes
    tokens, blocks = loaded.alone[0][0], list(range(6))
    with_table = pack_step([SequenceInput(tokens, 0, blocks, window_blocks=blocks)])
    with pytest.raises(StepError, match="no group of windows"):
        backend.execute(with_table, plain)
    with pytest.raises(StepError, match="needs a window_table"):
        backend.execute(pack_step([SequenceInput(tokens, 0, blocks)]), grouped)
    backend.execute(with_table, grouped)
    holes = [-1, -1, -1, 4, 3, 5]  # number 4 is another block, which was written
    backend.execute(pack_step([SequenceInput([5], 80, blocks, window_blocks=holes)]), grouped)
    fresh = backend.create_cache(num_seqs=1, num_tokens=LENGTH, window_group=True)
    backend.execute(pack_step([SequenceInput(tokens[:80], 0, blocks, window_blocks=blocks)]), fresh)
    with pytest.raises(StepError, match="only 0 positions of its block 5"):
        step = pack_step([SequenceInput([5], 80, blocks, window_blocks=[-1, -1, -1, -1, 5, 0])])
        backend.execute(step, fresh)
