import numpy as np
import pytest

from onnxgen.engine.sampling.processors import BANNED, ban_eos, ban_repeated_ngrams, penalize_repetition


def row(*values):
    return np.array(values, np.float32)


def test_a_token_is_penalized_once_however_often_it_occurs():
    logits = row(2.0, -1.0, 0.5)
    penalize_repetition(logits, np.array([0, 0, 0, 1]), 2.0)
    np.testing.assert_array_equal(logits, [1.0, -2.0, 0.5])


def test_a_huge_penalty_does_not_make_nan():
    logits = row(3e38, -3e38, 0.0)
    penalize_repetition(logits, np.array([0, 1, 2]), 1e30)
    assert not np.isnan(logits).any()


def test_an_empty_history_penalizes_nothing():
    logits = row(2.0, -1.0)
    penalize_repetition(logits, np.array([], np.int64), 2.0)
    np.testing.assert_array_equal(logits, [2.0, -1.0])


def test_every_eos_token_is_banned():
    logits = row(1, 2, 3, 4)
    ban_eos(logits, (1, 3))
    np.testing.assert_array_equal(logits, [1, BANNED, 3, BANNED])


@pytest.mark.parametrize(
    ("history", "size", "banned"),
    [
        ([1, 2, 3, 1, 2], 3, [3]),
        ([1, 2, 3, 1, 2], 2, [3]),
        ([1, 2, 1, 3, 1], 2, [2, 3]),
        ([1, 2, 3], 1, [1, 2, 3]),
        ([1, 2], 3, []),
        ([1, 1, 1], 3, [1]),
        ([], 1, []),
        ([1, 2, 3, 4], 2, []),
    ],
)
def test_followers_of_a_repeated_run_are_banned(history, size, banned):
    logits = np.zeros(6, np.float32)
    ban_repeated_ngrams(logits, np.array(history, np.int64), size)
    assert np.flatnonzero(logits == BANNED).tolist() == banned


def test_ngram_bans_equal_a_plain_search():
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    for _ in range(200):
        history = rng.integers(4, size=rng.integers(0, 30))
        size = int(rng.integers(1, 5))
        logits = np.zeros(4, np.float32)
        ban_repeated_ngrams(logits, history, size)
        text = history.tolist()
        tail = text[len(text) - size + 1 :]
        expected = (
            {text[i + size - 1] for i in range(len(text) - size + 1) if text[i : i + size - 1] == tail}
            if len(text) >= size
            else set()
        )
        assert set(np.flatnonzero(logits == BANNED).tolist()) == expected
