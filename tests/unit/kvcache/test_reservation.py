"""A step reserves, and then counts or never was."""

from __future__ import annotations

import pytest

from onnxgen.errors import StateError
from onnxgen.kvcache.base import NO_BLOCK, Copy, PoolShape
from onnxgen.kvcache.manager import CacheManager


def grow(cache: CacheManager, seq: int, tokens: list[int]) -> None:
    """Compute what a sequence lacks."""
    step = cache.begin_step()
    wanted = len(tokens) - cache.length(seq)
    assert step.extend(seq, wanted) == wanted
    step.commit(seq, tokens)
    cache.check_integrity()


def test_nothing_counts_before_commit() -> None:
    cache = CacheManager(PoolShape(4, 4))
    cache.open(1, range(10))
    step = cache.begin_step()
    assert step.extend(1, 6) == 6
    assert (cache.length(1), cache.blocks(1)) == (0, [])
    assert (step.context_len(1), len(step.blocks(1))) == (0, 2)
    assert cache.usage().full.free == 2
    step.commit(1, range(10))
    assert (cache.length(1), len(cache.blocks(1))) == (6, 2)


@pytest.mark.parametrize("undo", ["rollback", "withdraw"])
def test_what_is_undone_leaves_no_trace(undo: str) -> None:
    cache = CacheManager(PoolShape(4, 4))
    cache.open(1, range(20))
    grow(cache, 1, list(range(6)))
    before = list(cache.blocks(1))
    step = cache.begin_step()
    assert step.extend(1, 9) == 9
    getattr(step, undo)(1)
    assert (cache.length(1), cache.blocks(1)) == (6, before)
    assert cache.usage().full.free == 2
    cache.check_integrity()


def test_a_short_pool_grants_what_it_has() -> None:
    cache = CacheManager(PoolShape(3, 4))
    cache.open(1, range(99))
    cache.open(2, range(50, 99))
    step = cache.begin_step()
    assert step.extend(1, 50) == 12
    assert step.extend(2, 1) == 0
    with pytest.raises(StateError, match="sequence 2 takes no part in this step"):
        step.blocks(2)
    assert cache.usage().failures == 2
    step.withdraw(1)
    assert step.extend(2, 5) == 5


def test_room_is_found_piece_by_piece_within_a_step() -> None:
    cache = CacheManager(PoolShape(4, 4))
    cache.open(1, range(99))
    step = cache.begin_step()
    assert [step.extend(1, n) for n in (3, 1, 5, 99, 1)] == [3, 1, 5, 7, 0]
    step.commit(1, range(99))
    assert cache.length(1) == 16


def test_of_two_forks_the_first_writer_keeps_the_tail_and_the_second_copies() -> None:
    cache = CacheManager(PoolShape(8, 4))
    cache.open(1, range(6))
    grow(cache, 1, list(range(6)))
    cache.fork(1, 2)
    shared = list(cache.blocks(1))
    step = cache.begin_step()
    assert step.extend(1, 1) == step.extend(2, 1) == 1
    assert step.copies() == step.copies([2])
    (copy,) = step.copies()
    assert copy == Copy(shared[1], step.blocks(2)[1], 2)
    assert step.copies([1]) == []
    assert step.blocks(1) == shared
    step.commit(1, [*range(6), 7])
    step.commit(2, [*range(6), 8])
    assert cache.usage().copies == 1
    assert cache.blocks(1)[0] == cache.blocks(2)[0]
    assert cache.blocks(1)[1] != cache.blocks(2)[1]
    cache.check_integrity()


def test_a_fork_that_copies_may_give_up_and_the_source_stays_until_then() -> None:
    cache = CacheManager(PoolShape(3, 4), prefix_reuse=False)
    cache.open(1, range(6))
    grow(cache, 1, list(range(6)))
    cache.fork(1, 2)
    step = cache.begin_step()
    assert step.extend(2, 1) == 1  # at the tip, in place
    assert step.extend(1, 1) == 1  # copies
    (copy,) = step.copies()
    step.commit(2, range(7))
    cache.release(2, None)
    cache.check_integrity()
    assert cache.usage().full.free == 0
    step.rollback(1)
    assert cache.blocks(1)[1] == copy.source
    assert cache.usage().full.free == 1


@pytest.mark.parametrize("num_tokens", [2, 5])
def test_a_failed_write_in_place_gives_the_tip_back(num_tokens: int) -> None:
    cache = CacheManager(PoolShape(4, 4))
    cache.open(1, range(6))
    grow(cache, 1, list(range(6)))
    cache.fork(1, 2)
    step = cache.begin_step()
    assert step.extend(1, num_tokens) == num_tokens
    step.rollback(1)
    step = cache.begin_step()
    assert step.extend(2, 1) == 1
    assert step.copies() == []


def test_a_sequence_is_in_one_step_at_a_time() -> None:
    cache = CacheManager(PoolShape(4, 4))
    cache.open(1, range(6))
    first, second = cache.begin_step(), cache.begin_step()
    first.extend(1, 2)
    with pytest.raises(StateError, match="sequence 1 cannot be extended: it takes part in another step"):
        second.extend(1, 2)
    for misuse in (
        lambda: cache.release(1, None),
        lambda: cache.rewind(1, 0),
        lambda: cache.fork(1, 2),
        lambda: cache.checkpoint(1),
    ):
        with pytest.raises(StateError, match="commit, roll back or withdraw it first"):
            misuse()
    first.rollback(1)
    assert second.extend(1, 2) == 2
    with pytest.raises(StateError, match="sequence 1 takes no part in this step"):
        first.commit(1, range(6))


def test_a_slot_is_full_at_its_end() -> None:
    cache = CacheManager(PoolShape(2, 10, paged=False))
    cache.open(1, range(30))
    step = cache.begin_step()
    assert step.extend(1, 7) == 7
    assert step.extend(1, 7) == 3
    assert step.extend(1, 1) == 0
    step.commit(1, range(30))
    assert len(cache.blocks(1)) == 1


def test_blocks_behind_the_window_are_given_back_as_a_sequence_grows() -> None:
    cache = CacheManager(PoolShape(9, 4, window=5, window_blocks=9), prefix_reuse=False)
    tokens = list(range(100, 130))
    cache.open(1, tokens)
    grow(cache, 1, tokens[:14])
    assert NO_BLOCK not in cache.window_blocks(1)
    grow(cache, 1, tokens[:15])  # position 14 sees from 10 on: block 2
    assert list(cache.window_blocks(1))[:2] == [NO_BLOCK, NO_BLOCK]
    assert NO_BLOCK not in list(cache.window_blocks(1))[2:]
    usage = cache.usage()
    assert usage.reclaimed == 2
    assert usage.window is not None
    assert (usage.window.in_use, usage.full.in_use) == (2, 4)


def test_long_sequences_live_in_a_small_window() -> None:
    cache = CacheManager(PoolShape(100, 4, window=6, window_blocks=3))
    tokens = list(range(300))
    cache.open(1, tokens)
    for end in range(4, 300, 3):
        grow(cache, 1, tokens[:end])
    assert cache.length(1) == 298


def test_snapshots_of_a_recurrent_state_are_where_prompts_are_likely_to_part() -> None:
    cache = CacheManager(PoolShape(4, 40, exact=True, paged=False, snapshot_tokens=8))
    tokens = list(range(20))
    cache.open(1, tokens)
    ends: list[int] = []
    while cache.length(1) < 20:
        step = cache.begin_step()
        step.extend(1, 20 - cache.length(1))
        step.commit(1, tokens)
        ends.append(cache.length(1))
    assert ends == [8, 16, 20]
    assert cache.would_reuse([*range(12), 99]) == 8
    assert cache.would_reuse([*range(19), 99]) == 16
    assert cache.would_reuse([*range(7), 99]) == 0
    step = cache.begin_step()
    assert step.extend(1, 1) == 1
    assert step.copies() == []  # nobody else needs the state after 20
    cache.check_integrity()


def test_of_a_draft_a_part_counts_and_the_rest_is_given_back() -> None:
    cache = CacheManager(PoolShape(6, 4))
    cache.open(1, range(6))
    grow(cache, 1, list(range(6)))
    step = cache.begin_step()
    assert step.extend(1, 1) == 1
    assert step.extend_by_draft(1, 9) == 9
    assert len(step.blocks(1)) == 4
    step.commit_accepted(1, [*range(7), 70, 71, 72], 4)
    assert (cache.length(1), len(cache.blocks(1)), cache.usage().full.free) == (10, 3, 3)
    cache.check_integrity()
    assert cache.would_reuse([*range(7), 70, 71, 72, 73]) == 8, (
        "a full block of accepted tokens may be shared"
    )
    assert cache.would_reuse([*range(7), 7, 8, 9, 10]) == 7, "what was rejected is nowhere"


def test_a_draft_gets_what_there_is() -> None:
    cache = CacheManager(PoolShape(2, 4))
    cache.open(1, range(6))
    grow(cache, 1, list(range(6)))
    step = cache.begin_step()
    assert step.extend(1, 1) == 1
    assert step.extend_by_draft(1, 9) == 1
    step.shorten(1, 1)
    step.commit(1, list(range(7)))
    assert (cache.length(1), len(cache.blocks(1))) == (7, 2)


def test_a_draft_in_a_shared_block_leaves_the_others_theirs() -> None:
    cache = CacheManager(PoolShape(6, 4))
    cache.open(1, range(6))
    grow(cache, 1, list(range(6)))
    cache.fork(1, 2)
    step = cache.begin_step()
    for seq in (1, 2):
        assert step.extend(seq, 1) == 1
        assert step.extend_by_draft(seq, 3) == 3
    assert step.blocks(1)[1] != step.blocks(2)[1]
    step.commit_accepted(1, [*range(6), 60], 1)
    step.commit_accepted(2, [*range(6), 61, 62], 2)
    assert (cache.length(1), cache.length(2)) == (7, 8)
    cache.check_integrity()


def test_a_state_that_cannot_be_gone_back_to_is_copied_before_a_draft() -> None:
    cache = CacheManager(PoolShape(3, 20, exact=True, paged=False), prefix_reuse=False)
    cache.open(1, range(6))
    grow(cache, 1, list(range(6)))
    (slot,) = cache.blocks(1)
    step = cache.begin_step()
    assert step.extend(1, 1) == 1
    assert not step.copies([1])
    assert step.extend_by_draft(1, 3) == 3
    (copy,) = step.copies([1])
    assert (copy.source, copy.num_tokens) == (slot, 6)
    assert list(step.blocks(1)) == [copy.target] != [slot]
    step.rollback(1)
    assert (cache.blocks(1), cache.length(1)) == ([slot], 6)
    step = cache.begin_step()
    step.extend(1, 1)
    step.extend_by_draft(1, 3)
    step.commit_accepted(1, list(range(10)), 4)
    assert cache.length(1) == 10
    assert cache.usage().full.free == 2
    cache.check_integrity()


def test_without_a_free_slot_there_is_no_draft() -> None:
    cache = CacheManager(PoolShape(1, 20, exact=True, paged=False))
    cache.open(1, range(6))
    grow(cache, 1, list(range(6)))
    step = cache.begin_step()
    assert step.extend(1, 1) == 1
    assert step.extend_by_draft(1, 3) == 0
    step.commit(1, list(range(7)))
    assert cache.length(1) == 7
