import numpy as np
import pytest

from onnxgen.backends.base import (
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
