import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.engine.sampling.bans import BadWords, repeating_tokens
from onnxgen.engine.sampling.edits import BANNED, ban


@pytest.mark.parametrize(
    ("history", "size", "banned"),
    [
        ([1, 2, 3, 1, 2], 3, [3]),
        ([1, 2, 3, 1, 2], 2, [3]),
        ([1, 2, 1, 3, 1], 2, [2, 3]),
        ([1, 2, 3], 1, [1, 2, 3]),
        ([1, 2], 3, []),
        ([1, 1, 1], 3, [1]),
        ([1, 1, 1], 10**12, []),
        ([], 1, []),
        ([1, 2, 3, 4], 2, []),
    ],
)
def test_followers_of_a_repeated_run_are_found(history, size, banned):
    assert sorted(set(repeating_tokens(np.array(history, np.int64), size).tolist())) == banned


def test_repeating_tokens_equal_a_plain_search():
    rng = fresh_rng()
    for _ in range(200):
        history = rng.integers(4, size=rng.integers(0, 30))
        size = int(rng.integers(1, 5))
        text = history.tolist()
        tail = text[len(text) - size + 1 :]
        expected = (
            {text[i + size - 1] for i in range(len(text) - size + 1) if text[i : i + size - 1] == tail}
            if len(text) >= size
            else set()
        )
        assert set(repeating_tokens(history, size).tolist()) == expected


def test_the_last_token_of_a_word_is_banned_after_the_ones_before_it():
    words = BadWords([(5,), (1, 2), (3, 1, 4), (1, 1, 1, 6), (2, 7)])
    assert sorted(words.banned(np.array([3, 1])).tolist()) == [2, 4, 5]
    assert sorted(words.banned(np.array([1, 1, 1])).tolist()) == [2, 5, 6]
    assert words.banned(np.array([4])).tolist() == [5]
    assert words.banned(np.array([], np.int64)).tolist() == [5]
    assert BadWords([(1, 2)]).banned(np.array([], np.int64)).tolist() == []


def test_words_equal_a_plain_search():
    rng = fresh_rng()
    for _ in range(200):
        words = [tuple(rng.integers(3, size=rng.integers(1, 5)).tolist()) for _ in range(rng.integers(8))]
        history = rng.integers(3, size=rng.integers(12)).tolist()
        expected = {
            word[-1] for word in words if tuple(history)[len(history) - len(word) + 1 :] == word[:-1]
        } & {word[-1] for word in words if len(word) <= len(history) + 1}
        assert set(BadWords(words).banned(np.array(history, np.int64)).tolist()) == expected


def test_a_ban_does_not_lift_what_is_forbidden():
    row = np.array([1, -np.inf, 3], np.float32)
    tokens, values = ban(row, np.array([0, 1]))
    assert tokens.tolist() == [0, 1]
    assert values.tolist() == [BANNED, -np.inf]
