import numpy as np
import pytest

from onnxgen.graph.cpu.suffixes import common_suffixes


def plain(tokens):
    lengths = []
    for place in range(len(tokens)):
        length = 0
        while length <= place and tokens[place - length] == tokens[len(tokens) - 1 - length]:
            length += 1
        lengths.append(length)
    return lengths


def test_lengths_equal_a_plain_search():
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    for _ in range(300):
        tokens = rng.integers(rng.integers(1, 5), size=rng.integers(0, 50))
        assert common_suffixes(tokens).tolist() == plain(tokens.tolist())


def test_of_one_repeated_token_every_place_matches_to_its_beginning():
    assert common_suffixes(np.full(40_000, 7)).tolist() == list(range(1, 40_001))


def test_a_sequence_that_repeats_as_a_whole_matches_at_each_period():
    period = np.arange(9) + 2**40  # more than 32 bits
    lengths = common_suffixes(np.tile(period, 5))
    assert np.flatnonzero(lengths).tolist() == [8, 17, 26, 35, 44]
    assert lengths[8::9].tolist() == [9, 18, 27, 36, 45]


@pytest.mark.parametrize("dtype", [np.int32, np.uint16, np.int64])
def test_ids_of_any_integer_type_and_with_gaps_between(dtype):
    tokens = np.array([1, 9, 2, 9, 1, 9, 2, 9], dtype)[::2]
    assert common_suffixes(tokens).tolist() == [0, 2, 0, 4]
