import pytest

from onnxgen.backends.base import BlockCopy, SequenceInput, pack_step
from onnxgen.backends.ort.written import NOTHING, Written, after_copies, check_continues
from onnxgen.errors import StepError


def test_copies_are_accounted_for_in_order():
    slots = [Written(5), NOTHING, Written(9, long=True)]
    copies = [BlockCopy(0, 1, 3), BlockCopy(1, 2, 8), BlockCopy(0, 0, 1)]
    assert after_copies(slots, copies) == [Written(5), Written(3), Written(3)]
    assert slots[1] is NOTHING


def test_a_sequence_does_not_go_beyond_what_was_written():
    step = pack_step([SequenceInput([1], 2, [0]), SequenceInput([1], 4, [1])])
    check_continues(step, [Written(3), Written(4)], switch_length=None)
    with pytest.raises(StepError, match="sequence 1 has context_len 4, but only 3 positions"):
        check_continues(step, [Written(3), Written(3)], switch_length=None)


@pytest.mark.parametrize(("past", "new", "long"), [(5, 1, True), (4, 3, False)])
def test_a_sequence_does_not_cross_the_switch_of_rotary_tables(past, new, long):
    step = pack_step([SequenceInput([1] * new, past, [0])])
    check_continues(step, [Written(past, not long)], switch_length=6)
    with pytest.raises(StepError, match="start again from its first token"):
        check_continues(step, [Written(past, long)], switch_length=6)
