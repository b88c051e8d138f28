import dataclasses

import numpy as np
import pytest

from onnxgen.backends.base import (
    BlockCopy,
    CacheGeometry,
    Capabilities,
    SequenceInput,
    check_step,
    pack_step,
)
from onnxgen.errors import StepError

GEOMETRY = CacheGeometry(num_blocks=8, block_size=4)
PAGED = Capabilities(
    ragged=True, paged=True, rewind=True, copy_blocks=True, hidden_states=False, max_context=30
)


def check(step, capabilities=PAGED):
    check_step(step, geometry=GEOMETRY, capabilities=capabilities, vocab_size=10)


def test_parts_are_packed_one_after_the_other():
    step = pack_step(
        [
            SequenceInput([1, 2, 3], 5, [3, 7], logits="all"),
            SequenceInput(np.array([4], np.int32), 2, [1]),
            SequenceInput([5, 6], 0, [4], logits="none"),
        ]
    )
    assert step.token_ids.tolist() == [1, 2, 3, 4, 5, 6]
    assert step.positions.tolist() == [5, 6, 7, 2, 0, 1]
    assert step.cu_seqlens.tolist() == [0, 3, 4, 6]
    assert step.query_lens.tolist() == [3, 1, 2]
    assert step.block_table.tolist() == [[3, 7], [1, -1], [4, -1]]
    assert step.logits_rows.tolist() == [0, 1, 2, 3]
    assert [a.dtype for a in (step.token_ids, step.cu_seqlens, step.block_table)] == [
        np.int64,
        np.int32,
        np.int32,
    ]
    check(step)


def test_decode_is_packed_like_anything_else():
    step = pack_step([SequenceInput([1], 5, [3, 7]), SequenceInput(np.array([4]), 2, [1], logits="none")])
    assert step.positions.tolist() == [5, 2]
    assert step.cu_seqlens.tolist() == [0, 1, 2]
    assert step.logits_rows.tolist() == [0]
    check(step)


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        ([], "at least one sequence"),
        ([SequenceInput([1], 0, [0]), SequenceInput([], 0, [1])], "sequence 1 of the step has no new tokens"),
        ([SequenceInput([1], 0, [0], logits="first")], "'last', 'all' or 'none', got 'first'"),
    ],
)
def test_parts_that_make_no_step_are_refused(sequences, message):
    with pytest.raises(StepError, match=message):
        pack_step(sequences)


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
