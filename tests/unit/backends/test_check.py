import dataclasses

import numpy as np
import pytest

from onnxgen.backends.base import (
    WINDOW,
    BlockCopy,
    CacheGeometry,
    Capabilities,
    SequenceInput,
    pack_step,
)
from onnxgen.backends.check import check_step
from onnxgen.errors import StepError

GEOMETRY = CacheGeometry(num_blocks=8, block_size=4)
PAGED = Capabilities(
    ragged=True, paged=True, rewind=True, copy_blocks=True, hidden_states=False, max_context=30
)


def check(step, capabilities=PAGED):
    check_step(step, geometry=GEOMETRY, capabilities=capabilities, vocab_size=10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cu_seqlens": np.array([0, 2, 3], np.int32)}, "run from 0 to 4"),
        ({"cu_seqlens": np.array([0, 4, 4], np.int32)}, r"at least one new token, got \[4, 0\]"),
        ({"positions": np.arange(3)}, "must have 4 entries"),
        ({"positions": np.array([4, 5, 6, 1])}, "count on"),
        ({"block_table": np.zeros(2, np.int32)}, "block_table must have 2 rows"),
        ({"logits_rows": np.array([1, 1])}, "must increase"),
        ({"logits_rows": np.array([4])}, r"within \[0, 4\)"),
        ({"copies": (BlockCopy(0, 8, 1),)}, "leaves the pool of 8"),
        ({"copies": (BlockCopy(0, 1, 5),)}, "does not fit a block of 4"),
        (
            {"block_table": np.array([[3, 7], [7, -1]], np.int32)},
            "block 7 would be written by sequences 0 and 1",
        ),
        ({"block_table": np.array([[3, -1], [1, -1]], np.int32)}, r"its 1 block\(s\) of 4 hold 4"),
        ({"block_table": np.array([[-1, 3], [1, -1]], np.int32)}, "its 0 block"),
        (
            {"context_lens": np.array([3, 29], np.int32), "positions": np.array([3, 4, 5, 29])},
            "needs room for 30",
        ),
        ({"want_hidden_states": True}, "does not give them"),
    ],
)
def test_steps_that_break_the_contract_are_refused(change, message):
    step = pack_step([SequenceInput([1, 2, 3], 3, [3, 7]), SequenceInput([4], 2, [1])])
    check(step)
    with pytest.raises(StepError, match=message):
        check(dataclasses.replace(step, **change))


def test_blocks_that_are_only_read_may_be_shared():
    check(pack_step([SequenceInput([1], 4, [3, 7]), SequenceInput([4], 5, [3, 1])]))


def test_without_pages_a_sequence_has_one_block():
    slots = dataclasses.replace(PAGED, paged=False, copy_blocks=False)
    with pytest.raises(StepError, match="has 2 blocks"):
        check(pack_step([SequenceInput([1], 4, [3, 7])]), slots)
    with pytest.raises(StepError, match="cannot be copied"):
        check(pack_step([SequenceInput([1], 1, [3])], copies=[BlockCopy(0, 1, 1)]), slots)


WINDOWED = dataclasses.replace(PAGED, window=6)
TWO_GROUPS = dataclasses.replace(GEOMETRY, window_blocks=5)


def check_windowed(step, geometry=TWO_GROUPS):
    check_step(step, geometry=geometry, capabilities=WINDOWED, vocab_size=10)


def test_window_blocks_that_no_window_reaches_may_be_missing():
    for context, given_back in ((8, 0), (9, 1), (12, 1), (13, 2)):  # the first position seen is context - 5
        blocks, window_blocks = [0, 1, 2, 3], [0, 1, 2, 3]
        window_blocks[:given_back] = [-1] * given_back
        step = pack_step([SequenceInput([1], context, blocks, window_blocks=window_blocks)])
        check_windowed(step)
        window_blocks[given_back] = -1
        step = pack_step([SequenceInput([1], context, blocks, window_blocks=window_blocks)])
        with pytest.raises(
            StepError, match=f"needs window blocks from number {given_back} to {context // 4}"
        ):
            check_windowed(step)


def test_window_tables_that_do_not_fit_the_cache_are_refused():
    parts = [
        SequenceInput([1, 2], 3, [0, 1], window_blocks=[4, 3]),
        SequenceInput([4], 2, [2], window_blocks=[0]),
    ]
    step = pack_step(parts)
    check_windowed(step)
    with pytest.raises(StepError, match="no group of windows"):
        check_windowed(step, GEOMETRY)
    for change, message in (
        ({"window_table": None}, "needs a window_table"),
        ({"window_table": np.zeros(2, np.int32)}, "must have 2 rows"),
        ({"window_table": np.array([[4, 5], [0, -1]], np.int32)}, "window block 5 of a pool of 5"),
        (
            {"window_table": np.array([[4, 3], [3, -1]], np.int32)},
            "block 3 would be written by sequences 0 and 1",
        ),
        ({"window_table": np.array([[4], [0]], np.int32)}, "needs window blocks from number 0 to 1"),
        ({"copies": (BlockCopy(0, 5, 1, group=WINDOW),)}, "leaves the pool of 5"),
        ({"copies": (BlockCopy(0, 1, 1, group=2),)}, "of group 2"),
    ):
        with pytest.raises(StepError, match=message):
            check_windowed(dataclasses.replace(step, **change))
    check_windowed(dataclasses.replace(step, copies=(BlockCopy(4, 0, 4, group=WINDOW), BlockCopy(7, 6, 4))))
