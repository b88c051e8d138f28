"""Sequences over one pool: what they share, what they reuse, and what they wait for."""

from __future__ import annotations

import random

import pytest

from onnxgen.errors import StateError
from onnxgen.kvcache.base import NO_BLOCK, Copy, PoolShape
from onnxgen.kvcache.manager import CacheManager

SHARED = list(range(100, 140))


def grow(cache: CacheManager, seq: int, tokens: list[int]) -> list[Copy]:
    """Compute what a sequence lacks; returns the copies it took."""
    step = cache.begin_step()
    wanted = len(tokens) - cache.length(seq)
    assert step.extend(seq, wanted) == wanted
    copies = step.copies()
    step.commit(seq, tokens)
    cache.check_integrity()
    return copies


def said(cache: CacheManager, seq: int, tokens: list[int]) -> None:
    """A sequence that came and went."""
    cache.open(seq, tokens)
    grow(cache, seq, tokens)
    cache.release(seq, tokens)
    cache.check_integrity()


def test_a_prompt_said_before_is_computed_from_its_last_token_on() -> None:
    cache = CacheManager(PoolShape(20, 4))
    assert cache.open(1, SHARED[:12]) == 0
    grow(cache, 1, SHARED[:12])
    assert cache.would_reuse(SHARED[:12]) == 11
    assert cache.open(2, SHARED[:12]) == 11
    assert cache.blocks(1) == cache.blocks(2)
    usage = cache.usage()
    assert (usage.queried_tokens, usage.hit_tokens, usage.full.in_use) == (24, 11, 3)


@pytest.mark.parametrize("common", range(13))
def test_what_two_prompts_have_in_common_is_reused_to_the_token(common: int) -> None:
    cache = CacheManager(PoolShape(20, 4))
    said(cache, 1, SHARED[:12])
    tokens = [*SHARED[:common], 7, 8]
    assert cache.open(2, tokens) == common
    copies = grow(cache, 2, tokens)
    taken_over = common == 12  # the end of what was said, where a block is full anyway
    assert [c.num_tokens for c in copies] == ([common % 4] if common % 4 and not taken_over else [])


def test_other_extras_share_nothing() -> None:
    cache = CacheManager(PoolShape(20, 4))
    said(cache, 1, SHARED[:12])
    assert cache.would_reuse(SHARED[:12], extra="adapter") == 0
    assert cache.would_reuse(SHARED[:12]) == 11


def test_the_next_turn_takes_over_the_tail_of_the_last() -> None:
    cache = CacheManager(PoolShape(4, 4))
    turns = SHARED[:6]
    for seq in range(5):
        cache.open(seq, turns)
        assert grow(cache, seq, turns) == []
        assert cache.usage().full.in_use == -(-len(turns) // 4)
        cache.release(seq, turns)
        turns = [*turns, seq]
    assert cache.usage().hit_tokens == 6 + 7 + 8 + 9


def test_what_is_released_without_tokens_is_forgotten() -> None:
    cache = CacheManager(PoolShape(20, 4))
    cache.open(1, SHARED[:6])
    step = cache.begin_step()
    step.extend(1, 1)
    step.commit(1, SHARED[:6])
    cache.release(1, None)
    assert cache.would_reuse(SHARED[:6]) == 0
    assert cache.usage().full.free == 20


def test_without_prefix_reuse_nothing_stays() -> None:
    cache = CacheManager(PoolShape(20, 4), prefix_reuse=False)
    said(cache, 1, SHARED)
    assert cache.open(2, SHARED) == 0
    assert cache.usage().full.free == 20


def test_who_was_used_least_recently_leaves_first_and_tails_before_beginnings() -> None:
    cache = CacheManager(PoolShape(6, 4))
    old, new = [*SHARED[:4], *range(8)], [*SHARED[:4], *range(50, 58)]
    said(cache, 1, old)
    said(cache, 2, new)
    assert cache.usage().full.cached == 5
    said(cache, 3, list(range(70, 78)))
    assert cache.would_reuse([*old, 0]) == 8
    assert cache.would_reuse([*new, 0]) == 12
    said(cache, 4, list(range(80, 88)))
    assert cache.would_reuse([*old, 0]) == 4
    assert cache.usage().evicted == 3


def test_a_slot_that_runs_is_the_source_of_a_newcomer() -> None:
    cache = CacheManager(PoolShape(3, 40, paged=False))
    cache.open(1, SHARED[:20])
    grow(cache, 1, SHARED[:20])
    cache.open(2, [*SHARED[:15], 5, 6])
    assert cache.length(2) == 15
    (copy,) = grow(cache, 2, [*SHARED[:15], 5, 6])
    assert copy == Copy(cache.blocks(1)[0], cache.blocks(2)[0], 15)
    assert cache.blocks(1) != cache.blocks(2)


def test_with_one_slot_the_next_turn_and_another_question_both_run_in_it() -> None:
    cache = CacheManager(PoolShape(1, 40, paged=False))
    said(cache, 1, SHARED[:20])
    for seq, tokens in enumerate([SHARED[:25], [*SHARED[:12], 1, 2, 3], SHARED[:5]], 2):
        assert cache.open(seq, tokens) == min(len(tokens) - 1, [20, 12, 5][seq - 2])
        assert cache.missing_blocks(1, seq=seq) == 0
        assert grow(cache, seq, tokens) == []
        cache.release(seq, tokens)


def test_slots_that_cannot_be_copied_are_handed_on_to_one() -> None:
    cache = CacheManager(PoolShape(3, 40, paged=False, can_copy=False))
    said(cache, 1, SHARED[:20])
    assert cache.would_reuse([*SHARED[:15], 0]) == 0  # only as a whole
    assert cache.open(2, SHARED[:22]) == 20
    assert cache.open(3, SHARED[:22]) == 0
    assert grow(cache, 2, SHARED[:22]) == []
    cache.fork(2, 4)
    assert cache.length(4) == 0


def test_equal_prompts_computed_side_by_side_end_in_the_same_blocks() -> None:
    cache = CacheManager(PoolShape(20, 4))
    step = cache.begin_step()
    for seq in (1, 2):
        cache.open(seq, SHARED[:10])
        step.extend(seq, 10)
    for seq in (1, 2):
        step.commit(seq, SHARED[:10])
    assert cache.blocks(1)[:2] == cache.blocks(2)[:2]
    assert cache.usage().full.in_use == 4
    cache.check_integrity()


def test_only_blocks_that_others_hold_are_shared() -> None:
    cache = CacheManager(PoolShape(20, 4))
    said(cache, 1, SHARED[:20])
    assert (cache.would_reuse(SHARED[:20]), cache.would_share(SHARED[:20])) == (19, 0)
    cache.open(2, SHARED[:10])
    assert (cache.would_reuse(SHARED[:20]), cache.would_share(SHARED[:20])) == (19, 12)
    cache.release(2, None)
    assert cache.would_share(SHARED[:20]) == 0


def test_a_recurrent_state_is_reused_whole_or_not_at_all() -> None:
    cache = CacheManager(PoolShape(3, 64, exact=True, paged=False))
    said(cache, 1, SHARED[:10])
    assert cache.would_reuse([*SHARED[:9], 1]) == 0
    assert cache.open(2, [*SHARED[:10], 1]) == 10
    (copy,) = grow(cache, 2, [*SHARED[:10], 1])
    assert copy.num_tokens == 10
    assert cache.would_reuse([*SHARED[:10], 2]) == 10  # the state after ten tokens is still there
    cache.rewind(2, 11)
    assert cache.length(2) == 11
    cache.rewind(2, 10)
    assert cache.length(2) == 0


def test_a_hit_in_a_windowed_model_needs_what_the_window_sees() -> None:
    cache = CacheManager(PoolShape(20, 4, window=6, window_blocks=12))
    tokens = SHARED[:30]
    cache.open(1, tokens)
    for end in range(4, 31, 4):
        grow(cache, 1, tokens[: min(end, 30)])
    cache.release(1, tokens)
    assert cache.open(2, [*tokens[:21], 1]) == 21
    assert list(cache.window_blocks(2))[:4] == [NO_BLOCK] * 4
    assert NO_BLOCK not in list(cache.window_blocks(2))[4:]
    cache.release(2, None)
    # room is needed: window blocks leave, and with them the places where sequences can go on
    step = cache.begin_step()
    cache.open(3, list(range(60)))
    assert step.extend(3, 44) == 44
    step.rollback(3)
    cache.check_integrity()
    assert cache.usage().evicted == 6
    assert [cache.would_reuse([*tokens[:n], 1]) for n in (4, 8, 21, 28)] == [0, 0, 0, 0]
    assert cache.usage().full.cached == 7


def test_a_windowed_sequence_goes_back_within_its_window_or_to_nothing() -> None:
    cache = CacheManager(PoolShape(20, 4, window=6, window_blocks=20), prefix_reuse=False)
    cache.open(1, SHARED)
    grow(cache, 1, SHARED[:20])
    cache.rewind(1, 9)  # nothing was given back yet
    assert cache.length(1) == 9
    grow(cache, 1, SHARED[:25])
    grow(cache, 1, SHARED[:26])
    cache.rewind(1, 25)
    assert cache.length(1) == 25
    cache.rewind(1, 17)
    assert cache.length(1) == 0
    cache.check_integrity()


@pytest.mark.parametrize(
    ("shape", "capacity"),
    [
        (PoolShape(7, 4), 28),
        (PoolShape(7, 4, paged=False), 4),
        (PoolShape(0, 4), 0),
        (PoolShape(7, 4, window=5, window_blocks=3), 28),
        (PoolShape(7, 4, window=6, window_blocks=2), 8),
        (PoolShape(3, 4, window=100, window_blocks=9), 12),
    ],
)
def test_the_longest_sequence_that_fits_does_fit_and_one_more_token_does_not(
    shape: PoolShape, capacity: int
) -> None:
    cache = CacheManager(shape)
    assert cache.capacity_tokens == capacity
    assert cache.fits_ever(capacity)
    assert not cache.fits_ever(capacity + 1)
    cache.open(1, range(capacity + 1))
    reached = 0
    while True:
        step = cache.begin_step()
        granted = step.extend(1, capacity + 1 - reached)
        if not granted:
            break
        step.commit(1, range(capacity + 1))
        reached += granted
    assert reached == capacity


def test_missing_blocks_are_those_beyond_free_and_evictable_ones() -> None:
    cache = CacheManager(PoolShape(6, 4))
    said(cache, 1, SHARED[:8])
    cache.open(2, list(range(6)))
    grow(cache, 2, list(range(6)))
    assert cache.missing_blocks(16) == 0
    assert cache.missing_blocks(17) == 1
    assert cache.missing_blocks(2, seq=2) == 0
    assert cache.missing_blocks(18, seq=2) == 0
    assert cache.missing_blocks(19, seq=2) == 1
    assert cache.missing_blocks(0, seq=2) == 0
    cache.fork(2, 3)
    step = cache.begin_step()
    step.extend(2, 18)
    assert cache.missing_blocks(1, seq=3) == 1  # to copy the tail


def test_a_prefix_that_a_neighbour_is_computing_is_worth_waiting_for() -> None:
    cache = CacheManager(PoolShape(40, 4))
    neighbour = [*SHARED[:22], 1, 2, 3]
    newcomer = [*SHARED[:22], 7, 8]
    assert cache.coming_prefix(newcomer) == 0
    cache.open(1, neighbour)
    assert cache.coming_prefix(newcomer) == 22
    assert cache.coming_prefix(newcomer, extra="adapter") == 0
    assert cache.coming_prefix(neighbour) == len(neighbour) - 1
    assert cache.coming_prefix([5, *newcomer]) == 0
    grow(cache, 1, neighbour[:20])
    assert cache.coming_prefix(newcomer) == 22
    grow(cache, 1, neighbour)
    assert cache.coming_prefix(newcomer) == 0
    assert cache.would_reuse(newcomer) == 22


def test_of_a_recurrent_state_only_snapshots_still_to_come_are_worth_waiting_for() -> None:
    cache = CacheManager(PoolShape(1, 64, exact=True, paged=False, snapshot_tokens=8))
    cache.open(1, SHARED)
    step = cache.begin_step()
    assert step.extend(1, 30) == 8
    assert cache.coming_prefix([*SHARED[:15], 1]) == 8
    assert cache.coming_prefix([*SHARED[:7], 1]) == 0
    step.commit(1, SHARED)
    assert cache.would_reuse([*SHARED[:15], 1]) == 8
    step = cache.begin_step()
    assert step.extend(1, 8) == 8  # in the only slot there is: the snapshot is gone
    step.commit(1, SHARED)
    assert cache.would_reuse([*SHARED[:15], 1]) == 0
    assert cache.coming_prefix([*SHARED[:15], 1]) == 0
    assert cache.coming_prefix([*SHARED[:25], 1]) == 24


def test_common_beginnings_of_any_length_are_measured_exactly() -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    rng = random.Random(seed)
    tokens = [rng.randrange(9) for _ in range(700)]
    for _ in range(60):
        common = rng.randrange(699)
        cache = CacheManager(PoolShape(40, 16))
        cache.open(1, tokens)
        newcomer = [*tokens[:common], 99, *tokens[common + 1 : rng.randrange(700)]]
        assert cache.coming_prefix(newcomer) == min(common, len(newcomer) - 1)


def test_a_checkpoint_brings_a_sequence_back_as_often_as_wanted() -> None:
    cache = CacheManager(PoolShape(6, 4), prefix_reuse=False)
    cache.open(1, SHARED)
    grow(cache, 1, SHARED[:6])
    held = list(cache.blocks(1))
    checkpoint = cache.checkpoint(1)
    assert (checkpoint.seq, checkpoint.length) == (1, 6)
    for n in range(3):
        grow(cache, 1, [*SHARED[:6], n, n, n])
        cache.restore(checkpoint)
        assert (cache.length(1), cache.blocks(1)) == (6, held)
        cache.check_integrity()
    cache.release(1, None)
    assert cache.usage().full.in_use == 2
    cache.drop(checkpoint)
    assert cache.usage().full.free == 6


def test_a_number_is_open_once_and_names_itself_when_it_is_not() -> None:
    cache = CacheManager(PoolShape(6, 4))
    cache.open(3, SHARED)
    with pytest.raises(StateError, match="sequence 3 is open already"):
        cache.open(3, SHARED)
    for unknown in (
        lambda: cache.length(8),
        lambda: cache.blocks(8),
        lambda: cache.release(8, None),
        lambda: cache.rewind(8, 0),
        lambda: cache.fork(8, 9),
        lambda: cache.checkpoint(8),
        lambda: cache.missing_blocks(1, seq=8),
        lambda: cache.begin_step().extend(8, 1),
    ):
        with pytest.raises(StateError, match="sequence 8 is not open"):
            unknown()
    with pytest.raises(StateError, match="sequence 3 holds 0 tokens and cannot be rewound to 1"):
        cache.rewind(3, 1)


def test_prefixes_are_forgotten_and_open_sequences_stay() -> None:
    cache = CacheManager(PoolShape(20, 4))
    said(cache, 1, SHARED[:12])
    cache.open(2, [*SHARED[:8], 1, 2, 3])
    grow(cache, 2, [*SHARED[:8], 1, 2, 3])
    cache.forget_prefixes()
    cache.check_integrity()
    assert cache.would_reuse(SHARED) == 0
    assert (cache.length(2), cache.usage().full.in_use, cache.usage().full.cached) == (11, 3, 0)
    grow(cache, 2, [*SHARED[:8], *range(8)])
    assert cache.would_reuse([*SHARED[:8], 1]) == 8  # what runs on is found again


def test_sizes_in_bytes() -> None:
    cache = CacheManager(PoolShape(5, 4, block_bytes=100, window=4, window_blocks=3, window_block_bytes=10))
    cache.open(1, SHARED)
    grow(cache, 1, SHARED[:7])
    usage = cache.usage()
    assert usage.window is not None
    assert (usage.full.used_bytes, usage.window.used_bytes) == (200, 20)
