import numpy as np
import pytest

from onnxgen.errors import OptionError, TokenIdError
from onnxgen.facade.rows import Row, split_rows
from onnxgen.facade.tensor import Tensor

PAD = 0


def ids(*tokens):
    return np.array(tokens, np.int64)


def test_trailing_padding_is_seen_but_not_processed():
    row = Row().append(ids(5, PAD, 6, PAD, PAD), pad=PAD)
    assert row.view().tolist() == [5, 0, 6, 0, 0]
    assert row.processed(Row()).tolist() == [5, 0, 6]
    assert row.num_processed == 3


def test_a_row_of_padding_alone_keeps_one_token():
    assert Row().append(ids(PAD, PAD), pad=PAD).num_processed == 1


def test_without_a_padding_token_everything_is_processed():
    assert Row().append(ids(5, 0, 0), pad=None).num_processed == 3


def test_a_second_prompt_is_all_that_is_left_to_process():
    first = Row().append(ids(5, 6), pad=None)
    first.add(7)
    second = first.append(ids(8, 9), pad=None)
    assert second.processed(first).tolist() == [8, 9]
    assert first.view().tolist() == [5, 6, 7]


@pytest.mark.parametrize(
    ("length", "processed"), [(0, 0), (1, 1), (2, 2), (3, 2), (4, 2), (5, 3), (6, 4), (7, 4), (8, 4)]
)
def test_rewinding_maps_what_is_seen_to_what_is_processed(length, processed):
    row = Row().append(ids(5, 6, PAD, PAD), pad=PAD)  # 2 of 4
    for token in (7, 8):
        row.add(token)
    row.finish()
    for token in (99, PAD):
        row.add(token)
    row.truncate(length)
    assert (row.length, row.num_processed) == (length, processed)
    assert row.eos_at == (6 if length > 6 else None)


@pytest.mark.parametrize(
    ("tokens", "rows", "expected"),
    [
        ([1, 2, 3, 4], 2, [[1, 2], [3, 4]]),
        ([[1, 2], [3, 4]], 2, [[1, 2], [3, 4]]),
        (np.array([1, 2], np.uint16), 1, [[1, 2]]),
        (Tensor(np.array([[1, 2]], np.int32)), 1, [[1, 2]]),
        ((1, 2), 1, [[1, 2]]),
    ],
)
def test_tokens_come_in_many_forms(tokens, rows, expected):
    assert split_rows(tokens, rows).tolist() == expected


@pytest.mark.parametrize(
    ("tokens", "rows", "error", "message"),
    [
        ([], 1, OptionError, "no tokens were given"),
        ([[], []], 2, OptionError, "no tokens were given"),
        ([1, 2, 3], 2, OptionError, r"shape \(3,\) do not divide into the 2 rows"),
        ([[1, 2], [3, 4]], 1, OptionError, r"shape \(2, 2\) do not divide into the 1 rows"),
        ([1.5], 1, TokenIdError, r"must be integers, got \[1.5\]"),
        (["a"], 1, TokenIdError, "must be integers"),
        ([True], 1, TokenIdError, r"must be integers, got \[True\]"),
        ("text", 1, TokenIdError, "must be integers, got 'text'"),
        ([[5], [6, 7]], 2, OptionError, "must be equally long; pad the shorter ones"),
        (np.zeros((1, 1, 1), int), 1, OptionError, r"got shape \(1, 1, 1\)"),
        (5, 1, OptionError, r"got shape \(\)"),
        ([2**63], 1, TokenIdError, f"token id {2**63} is no id"),
    ],
)
def test_tokens_of_no_use_are_refused(tokens, rows, error, message):
    with pytest.raises(error, match=message):
        split_rows(tokens, rows)
