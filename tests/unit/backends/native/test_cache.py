"""The pool: sizes, limits, copies of whole blocks and of beginnings, and what is known of blocks."""

from __future__ import annotations

import numpy as np
import pytest

from onnxgen.backends.base import BlockCopy
from onnxgen.backends.native.cache import NativeCache
from onnxgen.backends.native.contents import BlockContents, Span
from onnxgen.backends.native.plan import CacheLayer
from onnxgen.errors import BackendError, StateError, StepError

LAYERS = [CacheLayer(2, 32), CacheLayer(1, 64)]


def make_cache(*, num_seqs: int = 2, num_tokens: int = 100, limit_mb: int | None = None) -> NativeCache:
    return NativeCache(
        LAYERS,
        num_seqs=num_seqs,
        num_tokens=num_tokens,
        block_size=64,
        switch_length=None,
        limit_mb=limit_mb,
        owner=None,
    )


def test_a_pool_has_room_for_what_was_asked():
    cache = make_cache()
    assert (cache.geometry.num_blocks, cache.geometry.block_size) == (4, 64)
    assert cache.num_bytes == 4 * cache.block_bytes
    assert all(address % 64 == 0 for address in cache.layer_addresses)


def test_a_short_sequence_has_a_short_block():
    cache = make_cache(num_tokens=9)
    assert (cache.geometry.num_blocks, cache.geometry.block_size) == (2, 9)
    assert cache.stored_size >= 16


def test_a_limit_is_kept():
    with pytest.raises(BackendError, match="the limit is 1 MiB"):
        make_cache(num_seqs=100, limit_mb=1)


def test_a_pool_beyond_all_memory_says_so():
    with pytest.raises(BackendError, match="more than there is"):
        make_cache(num_seqs=1 << 30)


def test_a_closed_cache_says_so():
    cache = make_cache()
    cache.close()
    cache.close()
    assert cache.num_bytes == 0
    with pytest.raises(StateError, match="closed"):
        _ = cache.layer_addresses


def test_a_copy_into_an_empty_block_takes_all_of_it():
    cache = make_cache()
    assert cache._memory is not None
    blocks = cache._memory.reshape(4, -1)
    blocks[1] = np.random.default_rng(1).integers(0, 255, blocks.shape[1])
    cache.contents.end([Span(0, 40, [1])])
    cache.copy([BlockCopy(1, 3, 40)])
    assert np.array_equal(blocks[3], blocks[1])
    assert cache.contents.written(3) == 40


def test_a_copy_of_a_beginning_leaves_the_rest():
    cache = make_cache()
    assert cache._memory is not None
    blocks = cache._memory.reshape(4, -1)
    blocks[0], blocks[1] = 7, 9
    cache.contents.end([Span(0, 64, [0]), Span(0, 64, [1])])
    cache.copy([BlockCopy(0, 1, 20)])
    share = (blocks[1] == 7).mean()
    assert share == pytest.approx(20 / 64, abs=0.01), "bytes of 20 of 64 tokens"
    assert set(np.unique(blocks[1])) == {7, 9}
    assert cache.contents.written(1) == 64


def test_what_nobody_wrote_is_not_read():
    contents = BlockContents(4, 8, switch_length=None)
    contents.end([Span(0, 13, [2, 0])])
    contents.check([Span(13, 14, [2, 0]), Span(8, 9, [2, 3])], [])
    for context in (14, 16):
        with pytest.raises(StepError, match="only 5 positions of its block 0"):
            contents.check([Span(context, context + 1, [2, 0])], [])
    with pytest.raises(StepError, match="only 0 positions of its block 1"):
        contents.check([Span(9, 10, [2, 1])], [])
    contents.check([Span(13, 14, [2, 1])], [BlockCopy(0, 1, 5)])


def test_a_failed_step_leaves_nothing_behind_the_context():
    contents = BlockContents(2, 8, switch_length=None)
    contents.end([Span(0, 12, [0, 1])])
    contents.begin([Span(3, 12, [0, 1])])
    assert (contents.written(0), contents.written(1)) == (3, 0)


def test_a_rewound_sequence_forgets_what_lay_behind():
    contents = BlockContents(1, 8, switch_length=None)
    contents.end([Span(0, 7, [0])])
    contents.begin([Span(2, 4, [0])])
    contents.end([Span(2, 4, [0])])
    with pytest.raises(StepError):
        contents.check([Span(6, 7, [0])], [])


def test_tables_of_another_length_are_noticed():
    contents = BlockContents(2, 8, switch_length=10)
    contents.end([Span(0, 9, [0, 1])])
    contents.check([Span(9, 10, [0, 1])], [])
    with pytest.raises(StepError, match="other side of 10"):
        contents.check([Span(9, 11, [0, 1])], [])
    contents.check([Span(0, 11, [0, 1])], [])
