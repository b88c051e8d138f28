import numpy as np

from kernel_runs import fresh_rng
from onnxgen.engine.sampling.penalties import penalize_answer, penalize_repetition


def changed(row, edit):
    row = row.copy()
    row[edit.tokens] = edit.values
    return row.tolist()


def row(*values):
    return np.array(values, np.float32)


def test_a_token_is_penalized_once_however_often_it_occurs():
    logits = row(2.0, -1.0, 0.5)
    edit = penalize_repetition(logits, np.array([0, 0, 0, 1]), 2.0)
    assert changed(logits, edit) == [1.0, -2.0, 0.5]
    assert logits.tolist() == [2.0, -1.0, 0.5]


def test_a_huge_penalty_does_not_make_nan():
    logits = row(3e38, -3e38, 0.0)
    with np.errstate(over="ignore"):
        edit = penalize_repetition(logits, np.array([0, 1, 2]), 1e30)
    assert not np.isnan(edit.values).any()


def test_an_empty_history_penalizes_nothing():
    logits = row(2.0, -1.0)
    assert changed(logits, penalize_repetition(logits, np.array([], np.int64), 2.0)) == [2.0, -1.0]
    edit = penalize_answer(logits, np.array([], np.int64), presence=1.0, frequency=1.0)
    assert changed(logits, edit) == [2.0, -1.0]


def test_a_forbidden_token_stays_forbidden():
    logits = row(-np.inf, 1.0)
    assert changed(logits, penalize_repetition(logits, np.array([0]), 0.5)) == [-np.inf, 1.0]
    assert changed(logits, penalize_answer(logits, np.array([0]), presence=-2, frequency=0)) == [-np.inf, 1.0]


def test_presence_counts_once_and_frequency_every_time():
    logits = row(0.0, 0.0, 0.0, 4.0)
    edit = penalize_answer(logits, np.array([1, 3, 1, 1]), presence=0.5, frequency=0.25)
    assert changed(logits, edit) == [0.0, -1.25, 0.0, 3.25]


def test_a_long_history_is_penalized_as_a_short_one():
    rng = fresh_rng()
    logits = rng.normal(size=50).astype(np.float32)
    history = rng.integers(40, size=9000)
    long = changed(logits, penalize_repetition(logits, history, 1.3))
    assert long == changed(logits, penalize_repetition(logits, np.unique(history), 1.3))
    assert long[40:] == logits[40:].tolist()
