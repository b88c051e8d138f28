import numpy as np
import pytest

from onnxgen.backends.base import BlockCopy
from onnxgen.engine.row_copies import CachedRow, common_length, differing_blocks, heirs


def cached(tokens, blocks, *, long=False):
    return CachedRow(np.array(tokens, np.int64), long, blocks)


@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        ([0, 1, 2], [0, 1, 2]),
        ([1, 2, 0], [2, 0, 1]),
        ([1, 1, 3, 1], [None, 1, None, 2]),
        ([2, 0, 0], [1, None, 0]),
        ([0, 0, 0], [0, None, None]),
    ],
)
def test_rows_keep_their_place_where_they_go_on_from_themselves(parents, expected):
    assert heirs(parents) == expected


def test_common_tokens_are_counted_from_the_first():
    assert common_length(cached([1, 2, 3, 4], []), cached([1, 2, 9, 4], [])) == 2
    assert common_length(cached([1, 2], []), cached([1, 2, 3], [])) == 2
    assert common_length(cached([], []), cached([1], [])) == 0
    assert common_length(cached([1, 2], [], long=True), cached([1, 2], [])) == 0


def test_copies_begin_at_the_block_that_differs():
    source, target = cached(range(10), [0, 1, 2]), cached([*range(6), 90, 91, 92], [3, 4, 5])
    assert differing_blocks(source, target, block_size=4, rewind=True) == [
        BlockCopy(1, 4, 4),
        BlockCopy(2, 5, 2),
    ]


def test_a_longer_target_needs_nothing_unless_it_cannot_go_back():
    source, target = cached([1, 2, 3], [0]), cached([1, 2, 3, 4], [1])
    assert differing_blocks(source, target, block_size=8, rewind=True) == []
    assert differing_blocks(source, target, block_size=8, rewind=False) == [BlockCopy(0, 1, 3)]
    assert differing_blocks(source, source, block_size=8, rewind=False) == []


def test_nothing_is_copied_of_a_row_that_holds_nothing():
    assert differing_blocks(cached([], [0]), cached([1], [1]), block_size=8, rewind=False) == []
