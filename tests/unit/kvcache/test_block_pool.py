"""Reference counts, the free list and the tip of blocks."""

from __future__ import annotations

import pytest

from onnxgen.kvcache.block_pool import BlockPool


def pool_of(num_blocks: int, *, exact: bool = False) -> tuple[BlockPool, list[tuple[str, int]]]:
    said: list[tuple[str, int]] = []
    pool = BlockPool(
        num_blocks,
        busy=lambda block: said.append(("busy", block)),
        idle=lambda block: said.append(("idle", block)),
        exact=exact,
    )
    return pool, said


def test_blocks_go_out_once_each_and_come_back_when_the_last_holder_lets_go() -> None:
    pool, _ = pool_of(3)
    blocks = [pool.acquire() for _ in range(3)]
    assert sorted(blocks) == [0, 1, 2]
    assert pool.num_free == 0
    pool.share(blocks[1])
    for block in blocks:
        pool.release(block)
    assert pool.num_free == 2
    pool.release(blocks[1])
    assert pool.num_free == 3
    assert (pool.num_allocated, pool.num_freed) == (3, 3)


def test_a_block_that_comes_back_has_nothing_in_it() -> None:
    pool, _ = pool_of(1)
    pool.filled[pool.acquire()] = 9
    pool.release(0)
    assert pool.filled[pool.acquire()] == 0


def test_misuse_is_noticed_at_once() -> None:
    pool, _ = pool_of(1)
    with pytest.raises(AssertionError, match="block 0 is free and cannot be shared"):
        pool.share(0)
    with pytest.raises(AssertionError, match="block 0 is free and was released again"):
        pool.release(0)
    pool.acquire()
    with pytest.raises(AssertionError, match="asked for a block, none of 1 is free"):
        pool.acquire()
    with pytest.raises(AssertionError, match="does not hold block 0"):
        pool.uncache(0)
    pool.cache(0)
    with pytest.raises(AssertionError, match="holds block 0 already"):
        pool.cache(0)
    pool.release(0)
    with pytest.raises(AssertionError, match="freed while the prefix index names it"):
        pool.release(0)


def test_the_index_hears_when_it_becomes_the_only_holder_and_when_it_ceases_to_be() -> None:
    pool, said = pool_of(2)
    block = pool.acquire()
    pool.cache(block)
    assert (said, pool.num_cached) == ([], 0)
    pool.release(block)
    assert (said, pool.num_cached) == ([("idle", block)], 1)
    pool.share(block)
    pool.share(block)
    assert (said[1:], pool.num_cached) == ([("busy", block)], 0)
    pool.release(block)
    pool.release(block)
    assert said[2:] == [("idle", block)]
    pool.uncache(block)
    assert (pool.num_cached, pool.num_free) == (0, 2)
    assert len(said) == 3


@pytest.mark.parametrize(
    ("holders", "offset", "exact", "allowed"),
    [
        (1, 3, False, True),  # alone, it may overwrite its own past
        (2, 5, False, True),  # at the tip
        (2, 3, False, False),  # two positions that another relies on lie behind
        (1, 5, True, True),
        (2, 5, True, False),  # a state changes as a whole
    ],
)
def test_who_may_write(holders: int, offset: int, exact: bool, allowed: bool) -> None:
    pool, _ = pool_of(1, exact=exact)
    block = pool.acquire()
    pool.filled[block] = 5
    for _ in range(holders - 1):
        pool.share(block)
    assert pool.may_write(block, offset) == allowed


@pytest.mark.parametrize(
    ("holders", "relied", "cached", "complaint"),
    [
        ([1, 0], [0, 0], set[int](), r"block 0: 2 references, 1 holders"),
        ([2, 1], [0, 0], set[int](), r"1 free \+ 2 in use \+ 0 cached = 3 of 2; references 2, holders 3"),
        ([2, 0], [5, 0], set[int](), r"filled 4, relied on 5"),
        ([2, 0], [0, 0], {0}, r"block 0: 2 references, 2 holders; cached: False"),
    ],
)
def test_books_that_disagree_are_told_with_the_whole_sum(
    holders: list[int], relied: list[int], cached: set[int], complaint: str
) -> None:
    pool, _ = pool_of(2)
    block = pool.acquire()
    assert block == 0
    pool.share(block)
    pool.filled[block] = 4
    pool.check_integrity([2, 0], [4, 0], set(), name="full")
    with pytest.raises(AssertionError, match=complaint):
        pool.check_integrity(holders, relied, cached, name="full")
