import threading

import numpy as np
import pytest

from onnxgen.graph.cpu.token_counts import token_counts


def counted(tokens, vocab_size):
    distinct, counts = token_counts(np.asarray(tokens), vocab_size=vocab_size)
    return dict(zip(distinct.tolist(), counts.tolist(), strict=True))


def test_counts_equal_those_of_numpy_in_order_of_first_occurrence():
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    for _ in range(100):
        vocab_size = int(rng.integers(1, 40))
        tokens = rng.integers(vocab_size, size=rng.integers(100))
        distinct, counts = np.unique(tokens, return_counts=True)
        found = counted(tokens, vocab_size)
        assert found == dict(zip(distinct.tolist(), counts.tolist(), strict=True))
        assert list(found) == list(dict.fromkeys(tokens.tolist()))


def test_no_tokens_have_no_counts():
    assert counted(np.array([], np.int64), 5) == {}


@pytest.mark.parametrize("bad", [-1, 9, 2**40, -(2**63)])
def test_a_token_outside_is_refused_and_leaves_nothing_behind(bad):
    with pytest.raises(IndexError, match="outside the vocabulary of 9"):
        counted(np.array([8, 8, bad, 3]), 9)
    assert counted(np.array([8, 3]), 9) == {8: 1, 3: 1}


def test_threads_count_by_themselves():
    found = {}
    sequences = [np.arange(200) % (i + 2) for i in range(4)]

    def count(i):
        for _ in range(200):
            found[i] = counted(sequences[i], 10 * (i + 1))

    threads = [threading.Thread(target=count, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: counted(sequences[i], 100) for i in range(4)}


def test_counts_stay_when_others_are_counted():
    distinct, counts = token_counts(np.array([4, 4, 1]), vocab_size=5)
    token_counts(np.array([2, 3, 3, 3]), vocab_size=5)
    assert distinct.tolist() == [4, 1]
    assert counts.tolist() == [2, 1]
