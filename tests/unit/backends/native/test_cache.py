"""The pool: sizes, limits, copies of whole blocks and of beginnings, and what is known of blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from onnxgen.backends.base import WINDOW, BlockCopy, SequenceInput, pack_step
from onnxgen.backends.native.cache import NativeCache
from onnxgen.backends.native.contents import BlockContents, Span, spans_of
from onnxgen.backends.native.plan import CacheLayer
from onnxgen.errors import BackendError, StateError, StepError

LAYERS = [CacheLayer(2, 32), CacheLayer(1, 64)]


def make_cache(
    *,
    num_seqs: int = 2,
    num_tokens: int = 100,
    limit_mb: int | None = None,
    windows: Sequence[int | None] | None = None,
) -> NativeCache:
    return NativeCache(
        LAYERS,
        windows=windows,
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
    assert cache.num_bytes == 4 * cache.geometry.block_bytes
    (first, size), (second, same) = cache.layers
    assert size == same == cache.geometry.block_bytes
    assert second - first == 64 * 2 * (12 + 4 * 32)
    assert first % 64 == second % 64 == 0


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
        _ = cache.layers


def test_a_copy_into_an_empty_block_takes_all_of_it():
    (area,) = make_cache().areas
    blocks = area._blocks
    blocks[1] = np.random.default_rng(1).integers(0, 255, blocks.shape[1])
    area.contents.end([Span(0, 40, [1])])
    area.copy([BlockCopy(1, 3, 40)])
    assert np.array_equal(blocks[3], blocks[1])
    assert area.contents.written(3) == 40


def test_a_copy_of_a_beginning_leaves_the_rest():
    (area,) = make_cache().areas
    blocks = area._blocks
    blocks[0], blocks[1] = 7, 9
    area.contents.end([Span(0, 64, [0]), Span(0, 64, [1])])
    area.copy([BlockCopy(0, 1, 20)])
    share = (blocks[1] == 7).mean()
    assert share == pytest.approx(20 / 64, abs=0.01), "bytes of 20 of 64 tokens"
    assert set(np.unique(blocks[1])) == {7, 9}
    assert area.contents.written(1) == 64


def test_a_copy_counts_where_no_layer_has_keys_of_the_group():
    full, _ = make_cache(windows=[70, 8]).areas
    assert full.block_bytes == 0
    full.contents.end([Span(0, 64, [0])])
    full.copy([BlockCopy(0, 1, 20)])
    assert full.contents.written(1) == 20


def test_windowed_layers_have_as_many_blocks_as_a_window_and_a_step_take():
    cache = make_cache(num_tokens=10_000, windows=[None, 70])
    assert cache.geometry.num_blocks == 2 * 157
    assert cache.geometry.window_blocks == 2 * (18 + 1), "(70 + 1024) / 64 and one that they begin within"
    assert cache.geometry.block_bytes == 64 * 2 * (12 + 4 * 32)
    assert cache.geometry.window_block_bytes == 64 * (12 + 4 * 64)
    assert [size for _, size in cache.layers] == [64 * 2 * (12 + 4 * 32), 64 * (12 + 4 * 64)]
    geometry = cache.geometry
    assert cache.num_bytes == 314 * geometry.block_bytes + 38 * geometry.window_block_bytes
    cache.close()
    assert cache.num_bytes == 0


def test_short_sequences_need_no_more_window_blocks_than_others():
    assert make_cache(num_tokens=100, windows=[70, None]).geometry.window_blocks == 4


def test_groups_are_copied_and_known_apart():
    cache = make_cache(windows=[None, 70])
    full, window = cache.areas
    full._blocks[0], window._blocks[0] = 3, 5
    spans = [[Span(0, 64, [0])], [Span(0, 64, [0])]]
    cache.end(spans)
    cache.begin(
        [[Span(70, 71, [0, 2])], [Span(70, 71, [0, 3])]],
        [BlockCopy(0, 1, 9), BlockCopy(0, 2, 9, group=WINDOW)],
    )
    assert (full.contents.written(1), full.contents.written(2)) == (9, 6)
    assert (window.contents.written(1), window.contents.written(2)) == (0, 9)
    assert (full._blocks[1] == 3).any()
    assert not full._blocks[2].any()
    assert (window._blocks[2] == 5).any()
    assert not window._blocks[1].any()


def test_what_lies_before_a_window_may_be_missing():
    contents = BlockContents(4, 8, switch_length=None)
    contents.end([Span(16, 21, [-1, -1, 3])])
    contents.check([Span(21, 22, [-1, -1, 3], first=16)], [])
    with pytest.raises(StepError, match="only 0 positions of its block 2"):
        contents.check([Span(21, 22, [-1, 2, 3], first=15)], [])


def test_spans_of_windows_begin_where_the_first_token_looks():
    parts = [
        SequenceInput([1, 2], 3, [0, 1], window_blocks=[2, 3]),
        SequenceInput([3], 21, range(3), window_blocks=[-1, -1, 0]),
    ]
    full, window = spans_of(pack_step(parts), window=6)
    assert full == [Span(3, 5, [0, 1, -1]), Span(21, 22, [0, 1, 2])]
    assert window == [Span(3, 5, [2, 3, -1], 0), Span(21, 22, [-1, -1, 0], 16)]


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


def test_blocks_of_both_groups_go_to_another_cache_byte_by_byte():
    rng = np.random.default_rng()
    one, two = (make_cache(windows=[None, 20]) for _ in range(2))
    for group, area in enumerate(one.areas):
        area._blocks[...] = rng.integers(0, 256, area._blocks.shape)
        area.contents.filled(1, 64, long=False)
        two.import_block(0, one.export_block(1, 64, group=group), 64, group=group)
        assert np.array_equal(two.areas[group]._blocks[0], area._blocks[1])
        assert not two.areas[group]._blocks[1:].any()
        assert two.areas[group].contents.written(0) == 64
