"""Sequences and prefixes that leave the pool for the tiers and come back."""

from __future__ import annotations

import random

import pytest

from cache_shadow import ShadowCache, ShadowMover
from onnxgen.errors import StateError
from onnxgen.kvcache.base import FULL, NO_BLOCK, PoolShape
from onnxgen.kvcache.manager import CacheManager
from onnxgen.kvcache.tiers import Tiers


class Rig:
    """A cache over a shadow that does what steps say."""

    def __init__(
        self, shape: PoolShape, *, host_tokens: int, disk_tokens: int = 0, failures: float = 0
    ) -> None:
        self.shadow = ShadowCache(shape)
        self.mover = ShadowMover(self.shadow, random.Random(0), failures=failures)
        # the shadow's mover counts a token as a byte
        self.tiers = Tiers(self.mover, host_bytes=host_tokens, disk_bytes=disk_tokens)
        self.cache = CacheManager(shape, tiers=self.tiers)

    def tables(self, seq: int) -> list[list[int]]:
        tables = [list(self.cache.blocks(seq))]
        return tables if self.shadow.shape.window is None else [*tables, list(self.cache.window_blocks(seq))]

    def grow(self, seq: int, tokens: list[int]) -> None:
        step = self.cache.begin_step()
        context = self.cache.length(seq)
        assert step.extend(seq, len(tokens) - context) == len(tokens) - context
        self.shadow.copy(step.copies())
        tables = [step.blocks(seq), step.window_blocks(seq)][: len(self.shadow.blocks)]
        self.shadow.write(tables, tokens[:context], tokens[context:], fails=False)
        step.commit(seq, tokens)
        self.check(seq, tokens)

    def say(self, seq: int, tokens: list[int]) -> int:
        reused = self.cache.open(seq, tokens)
        self.check(seq, tokens)
        self.grow(seq, tokens)
        self.cache.release(seq, tokens)
        self.cache.check_integrity()
        return reused

    def check(self, seq: int, tokens: list[int]) -> None:
        self.cache.check_integrity()
        self.shadow.check(self.tables(seq), tokens[: self.cache.length(seq)])


PAGES = PoolShape(4, 4)
WINDOWED = PoolShape(8, 4, window=5, window_blocks=4)
SLOTS = PoolShape(1, 30, paged=False)
STATES = PoolShape(1, 30, paged=False, exact=True)


@pytest.mark.parametrize("shape", [PAGES, WINDOWED, SLOTS, STATES])
@pytest.mark.parametrize(("host", "disk"), [(99, 0), (0, 99)])
def test_a_swapped_sequence_comes_back_as_it_was(shape: PoolShape, host: int, disk: int) -> None:
    rig = Rig(shape, host_tokens=host, disk_tokens=disk)
    tokens = list(range(40))
    rig.cache.open(1, tokens)
    rig.grow(1, tokens[:6])
    rig.grow(1, tokens[:14])
    assert rig.cache.swap_out(1)
    assert rig.cache.is_swapped(1)
    assert (rig.cache.length(1), list(rig.cache.blocks(1))) == (14, [])
    usage = rig.cache.usage()
    assert (usage.swapped, usage.full.in_use, usage.swapped_out) == (1, 0, 1)
    rig.cache.forget_prefixes()
    rig.say(2, list(range(50, 64)))
    assert rig.cache.swap_in(1)
    rig.check(1, tokens)
    assert rig.cache.length(1) == 14
    rig.grow(1, tokens[:16])
    rig.cache.release(1, None)
    rig.cache.forget_prefixes()
    assert rig.mover.kept == {}
    assert rig.cache.usage().full.free == shape.num_blocks


def test_blocks_that_a_window_gave_back_stay_given_back() -> None:
    rig = Rig(WINDOWED, host_tokens=99)
    tokens = list(range(40))
    rig.cache.open(1, tokens)
    for end in (8, 14, 15):
        rig.grow(1, tokens[:end])
    given_back = [block == NO_BLOCK for block in rig.cache.window_blocks(1)]
    assert given_back == [True, True, False, False]
    assert rig.cache.swap_out(1)
    assert rig.cache.swap_in(1)
    assert [block == NO_BLOCK for block in rig.cache.window_blocks(1)] == given_back
    rig.check(1, tokens)


def test_what_no_window_reaches_any_more_is_not_swapped() -> None:
    rig = Rig(WINDOWED, host_tokens=99)
    tokens = list(range(40))
    rig.cache.open(1, tokens)
    rig.grow(1, tokens[:14])
    assert NO_BLOCK not in rig.cache.window_blocks(1)
    assert rig.cache.swap_out(1)
    usage = rig.cache.usage().tiers
    assert usage is not None
    assert usage.host_bytes == 14 + 6, "all tokens, and the two last blocks of the windows"
    assert rig.cache.swap_in(1)
    assert [block == NO_BLOCK for block in rig.cache.window_blocks(1)] == [True, True, False, False]
    rig.check(1, tokens)
    rig.grow(1, tokens[:16])


def test_nothing_changes_where_there_is_no_room() -> None:
    tokens = list(range(40))
    without = CacheManager(PAGES)
    without.open(1, tokens)
    assert not without.swap_out(1)
    rig = Rig(PAGES, host_tokens=9)
    rig.cache.open(1, tokens)
    assert not rig.cache.swap_out(1)  # nothing to swap
    rig.grow(1, tokens[:10])
    assert not rig.cache.swap_out(1)
    rig.check(1, tokens)
    assert rig.cache.length(1) == 10
    rig.cache.rewind(1, 9)
    assert rig.cache.swap_out(1)
    rig.cache.open(2, list(range(60, 80)))
    rig.grow(2, list(range(60, 68)))
    assert not rig.cache.swap_in(1)
    assert rig.cache.is_swapped(1)
    rig.cache.release(2, None)
    assert rig.cache.swap_in(1)
    rig.check(1, tokens)


def test_a_swapped_sequence_takes_part_in_nothing() -> None:
    rig = Rig(PAGES, host_tokens=99)
    rig.cache.open(1, list(range(9)))
    with pytest.raises(StateError, match="sequence 1 is not swapped out"):
        rig.cache.swap_in(1)
    rig.grow(1, list(range(6)))
    assert rig.cache.swap_out(1)
    for misuse in (
        lambda: rig.cache.swap_out(1),
        lambda: rig.cache.rewind(1, 2),
        lambda: rig.cache.checkpoint(1),
        lambda: rig.cache.begin_step().extend(1, 1),
    ):
        with pytest.raises(StateError, match=r"sequence 1 .*is swapped out"):
            misuse()
    rig.cache.fork(1, 2)
    assert rig.cache.length(2) == 0
    rig.cache.release(1, list(range(9)))
    assert rig.mover.kept == {}


def test_a_sequence_that_the_tiers_have_lost_begins_again() -> None:
    rig = Rig(PAGES, host_tokens=99)
    rig.cache.open(1, list(range(9)))
    rig.grow(1, list(range(6)))
    assert rig.cache.swap_out(1)
    rig.mover.failures = 1.0
    assert rig.cache.swap_in(1)
    assert (rig.cache.length(1), rig.cache.is_swapped(1)) == (0, False)
    usage = rig.cache.usage()
    assert usage.tiers is not None
    assert usage.tiers.failures == 1
    rig.mover.failures = 0.0
    rig.grow(1, list(range(9)))


def test_a_checkpoint_is_restored_over_a_swapped_sequence() -> None:
    rig = Rig(PAGES, host_tokens=99)
    rig.cache.open(1, list(range(9)))
    rig.grow(1, list(range(6)))
    checkpoint = rig.cache.checkpoint(1)
    assert rig.cache.swap_out(1)
    rig.cache.restore(checkpoint)
    assert not rig.cache.is_swapped(1)
    assert rig.mover.kept == {}
    rig.check(1, list(range(9)))
    rig.cache.drop(checkpoint)


@pytest.mark.parametrize("shape", [PAGES, SLOTS, STATES])
@pytest.mark.parametrize(("host", "disk"), [(40, 0), (0, 40), (14, 40)])
def test_a_prefix_that_had_to_leave_comes_back_on_a_hit(shape: PoolShape, host: int, disk: int) -> None:
    rig = Rig(shape, host_tokens=host, disk_tokens=disk)
    first, second = list(range(14)), list(range(50, 64))
    rig.say(1, first)
    rig.say(2, second)
    assert rig.cache.usage().evicted > 0
    again = [*first, 7]
    assert rig.cache.would_reuse(again) == 14
    assert rig.say(3, again) == 14


def test_a_windowed_prefix_comes_back_with_what_the_window_sees() -> None:
    rig = Rig(PoolShape(8, 4, window=5, window_blocks=16), host_tokens=99)
    first = list(range(14))
    rig.say(1, first)
    rig.cache.open(2, list(range(50, 80)))
    rig.grow(2, list(range(50, 80)))
    rig.cache.release(2, None)
    usage = rig.cache.usage()
    assert usage.tiers is not None
    assert usage.tiers.num_items == 8
    assert rig.cache.would_reuse([*first, 7]) == 14
    assert rig.cache.open(3, [*first, 7]) == 14
    assert list(rig.cache.window_blocks(3))[:2] == [NO_BLOCK, NO_BLOCK]
    rig.check(3, [*first, 7])
    rig.grow(3, [*first, 7])


def test_a_prefix_whose_windows_cannot_be_read_is_not_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(PoolShape(8, 4, window=5, window_blocks=16), host_tokens=99)
    rig.say(1, list(range(14)))
    rig.say(2, list(range(50, 80)))
    load = rig.mover.load
    monkeypatch.setattr(rig.mover, "load", lambda key, pieces: pieces[0].group == FULL and load(key, pieces))
    assert rig.cache.would_reuse(list(range(14))) == 13
    assert rig.cache.open(3, list(range(14))) == 0
    rig.grow(3, list(range(14)))


def test_prefixes_make_room_for_swapped_sequences_and_for_later_ones() -> None:
    rig = Rig(PAGES, host_tokens=20)
    for n in range(6):
        rig.say(n, [n] * 14)
    usage = rig.cache.usage()
    assert usage.tiers is not None
    assert usage.tiers.dropped > 0
    assert usage.tiers.host_bytes <= 20
    assert rig.cache.would_reuse([0] * 14) == 0
    rig.cache.open(9, list(range(20, 40)))
    rig.grow(9, list(range(20, 36)))
    assert rig.cache.swap_out(9)
    rig.cache.check_integrity()
    rig.say(10, [10] * 14)
    assert rig.cache.swap_in(9)
    rig.check(9, list(range(20, 40)))


def test_a_disk_that_fails_costs_the_prefix_and_no_request() -> None:
    rig = Rig(PAGES, host_tokens=0, disk_tokens=99)
    rig.say(1, list(range(14)))
    rig.say(2, list(range(50, 64)))
    rig.mover.failures = 1.0
    promised = rig.cache.would_reuse(list(range(14)))
    assert promised == 13
    assert rig.cache.open(3, list(range(14))) == 0
    rig.grow(3, list(range(14)))
