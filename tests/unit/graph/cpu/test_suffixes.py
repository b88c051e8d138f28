import numpy as np
import pytest

from onnxgen.graph.cpu.suffixes import followers_of_suffixes


def plain(tokens, least):
    """By the definition, in quadratic time."""
    found = []
    for end in reversed(range(len(tokens) - 1)):
        length = 0
        while length <= end and tokens[end - length] == tokens[-1 - length]:
            length += 1
        if length >= least:
            found.append((tokens[end + 1], length))
    return found


def pairs(tokens, least):
    followers, lengths = followers_of_suffixes(np.asarray(tokens), least=least)
    return list(zip(followers.tolist(), lengths.tolist(), strict=True))


def test_followers_equal_a_plain_search():
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    for _ in range(300):
        tokens = rng.integers(rng.integers(1, 5), size=rng.integers(0, 50)).tolist()
        least = int(rng.integers(1, 6))
        assert pairs(np.array(tokens, np.int64), least) == plain(tokens, least)


def test_of_one_repeated_token_every_place_matches_to_its_beginning():
    assert pairs(np.full(40_000, 7), 1) == [(7, length) for length in range(39_999, 0, -1)]


def test_a_sequence_that_repeats_as_a_whole_matches_at_each_period():
    period = np.arange(9) + 2**40  # more than 32 bits
    assert pairs(np.tile(period, 5), 2) == [(2**40, length) for length in (36, 27, 18, 9)]


def test_what_was_found_stays_when_more_is_looked_for():
    first, _ = followers_of_suffixes(np.array([1, 2, 1]), least=1)
    followers_of_suffixes(np.array([1, 3, 1]), least=1)
    assert first.tolist() == [2]


@pytest.mark.parametrize("dtype", [np.int32, np.uint16, np.int64])
def test_ids_of_any_integer_type_and_with_gaps_between(dtype):
    tokens = np.array([1, 9, 2, 9, 1, 9, 2, 9, 3, 9, 2], dtype)[::2]
    assert pairs(tokens, 1) == [(3, 1), (1, 1)]
