"""What follows the longest earlier occurrence of a sequence's end, against a search by the definition."""

import random

import numpy as np
import pytest

from onnxgen.graph.cpu import recurrences
from onnxgen.graph.cpu.recurrences import SuffixIndex


def longest_match(tokens):
    """Length of the longest suffix that also ends further in front, and where it does."""
    best, ends = 0, []
    for end in range(len(tokens) - 1):
        length = 0
        while length <= end and tokens[end - length] == tokens[-1 - length]:
            length += 1
        if length > best:
            best, ends = length, [end]
        elif length == best and length:
            ends.append(end)
    return best, ends


def continuation(tokens, end, count):
    """What came behind a place; behind the sequence's end it repeats itself."""
    found = []
    for at in range(end + 1, end + 1 + count):
        found.append(tokens[at] if at < len(tokens) else found[at - len(tokens)])
    return found


def following(index, tokens, *, wanted=4, least=1):
    found, length = index.following(np.array(tokens, np.int64), wanted=wanted, least=least)
    return found.tolist(), length


def test_matches_are_the_longest_and_go_on_as_they_did():
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(300):
        index, tokens, kinds = SuffixIndex(), [], rng.choice([1, 2, 3, 10])
        for _ in range(rng.randint(1, 40)):
            tokens += [rng.randrange(kinds) for _ in range(rng.randint(1, 3))]
            wanted, least = rng.randint(1, 9), rng.randint(1, 4)
            found, length = following(index, tokens, wanted=wanted, least=least)
            best, ends = longest_match(tokens)
            if length:
                assert length == best >= least
                assert found in [continuation(tokens, end, wanted) for end in ends]
            elif not found:
                assert best < max(least, 4)
            else:
                assert best < 4, "only where no match says more does an edited passage go on"


def test_the_longest_match_counts_not_the_last():
    tokens = [1, 2, 3, 4, 5, 50, 51, 9, 4, 5, 60, 61, 1, 2, 3, 4, 5]
    assert following(SuffixIndex(), tokens, wanted=2) == ([50, 51], 5)


def test_an_occurrence_with_enough_behind_it_is_preferred():
    tokens = [1, 2, 3, 4, 70, 71, 72, 73, 74, 75, 76, 77, 1, 2, 3, 4, 80, 1, 2, 3, 4]
    index = SuffixIndex()
    for size in range(1, len(tokens)):
        following(index, tokens[:size])
    assert following(index, tokens, wanted=4)[0] == [80, 1, 2, 3]
    assert following(index, tokens, wanted=8)[0] == [70, 71, 72, 73, 74, 75, 76, 77]


def test_cycles_go_on_periodically():
    assert following(SuffixIndex(), [9, 1, 2, 3, 1, 2, 3, 1, 2], wanted=7) == ([3, 1, 2, 3, 1, 2, 3], 5)


def test_a_copied_passage_goes_on_behind_a_token_that_was_changed():
    source = list(range(100, 120))
    tokens = [*source, 7, *source[:10], 55]  # 110 became 55
    assert following(SuffixIndex(), tokens, wanted=3) == ([111, 112, 113], 0)
    assert following(SuffixIndex(), [*tokens, 111], wanted=3, least=2)[0] == [112, 113, 114]
    assert following(SuffixIndex(), [*source, 7, *source[:5], 55]) == ([], 0), "too short to be a copy"


def test_short_matches_do_not_count():
    tokens = [1, 2, 3, 9, 8, 2, 3]
    assert following(SuffixIndex(), tokens, least=2, wanted=1) == ([9], 2)
    assert following(SuffixIndex(), tokens, least=3, wanted=1) == ([], 0)


def test_other_tokens_than_before_are_noticed():
    index = SuffixIndex()
    assert following(index, [1, 2, 3, 1, 2], wanted=1) == ([3], 2)
    assert following(index, [1, 2, 4, 1, 2], wanted=1) == ([4], 2)
    assert following(index, [1, 2], wanted=1) == ([], 0)
    assert following(index, [5, 6, 7, 5, 6, 5, 6], wanted=1) == ([5], 2)


@pytest.mark.parametrize("kinds", [2, 1000])
def test_memory_is_bounded_and_long_sequences_are_known_by_their_end(kinds, monkeypatch):
    monkeypatch.setattr(recurrences, "MOST_TOKENS", 2048)
    rng = np.random.default_rng()
    tokens = rng.integers(kinds, size=5000).astype(np.int64)
    index = SuffixIndex()
    for size in (10, 300, 2040, 2049, 2500, 3000, 3300, 5000):
        _, length = index.following(tokens[:size], wanted=3, least=1)
        assert index.num_bytes <= 124 * 2048 + 64
        if length:
            start = max(0, size - 2048)
            assert length <= size - start
    repeated = np.concatenate([tokens, tokens[-600:]])
    _, length = index.following(repeated, wanted=4, least=1)
    assert length >= 600


def test_an_empty_sequence_has_no_match():
    assert following(SuffixIndex(), []) == ([], 0)
    assert following(SuffixIndex(), [3]) == ([], 0)
