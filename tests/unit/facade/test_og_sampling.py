from __future__ import annotations

import numpy as np
import pytest

from onnxgen.errors import BackendError
from onnxgen.facade.og_sampling import OgSampler
from onnxgen.metadata.model_spec import SearchDefaults

VOCAB = 90


def sampler(**search):
    return OgSampler(SearchDefaults(**{"do_sample": True, "random_seed": 11, **search}), eos_ids=[2])


def logits(rows, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, VOCAB)).astype(np.float32)


def choose(own, rows, length, seed=0):
    histories = [np.arange(length)] * len(rows)
    return own(logits(len(rows), seed), sequences=rows, histories=histories, length=length)


def test_rows_draw_in_turn_and_finished_ones_nothing():
    both = sampler(batch_size=2)
    alone = sampler()
    first = choose(both, [0, 1], 4)
    row = logits(2)
    one = alone(row[:1], sequences=[0], histories=[np.arange(4)], length=4)
    other = alone(row[1:], sequences=[0], histories=[np.arange(4)], length=5)
    assert first == one + other
    assert choose(both, [1], 5, seed=3) == choose(alone, [0], 6, seed=3)


def test_a_row_with_one_candidate_takes_no_number():
    certain = np.full((1, VOCAB), -40, np.float32)
    certain[0, 5] = 0
    own = sampler(top_p=0.9)
    for length in range(3, 8):
        assert own(certain, sequences=[0], histories=[np.arange(length)], length=length) == [5]
    assert choose(own, [0], 8) == choose(sampler(top_p=0.9), [0], 8)


@pytest.mark.parametrize("back", [3, 5, 7])
def test_rewinding_gives_the_numbers_back(back):
    own = sampler()
    whole = [choose(own, [0], length, seed=length) for length in range(3, 9)]
    own.rewind(back)
    assert [choose(own, [0], length, seed=length) for length in range(back, 9)] == whole[back - 3 :]


def test_a_step_that_fails_takes_no_number():
    own = sampler(batch_size=2)
    broken = logits(2)
    broken[1, 7] = np.nan
    with pytest.raises(BackendError, match="nan as the best logit"):
        own(broken, sequences=[0, 1], histories=[np.arange(3)] * 2, length=3)
    assert choose(own, [0, 1], 3) == choose(sampler(batch_size=2), [0, 1], 3)


def test_penalties_and_bans_come_before_the_draw():
    row = np.full((1, VOCAB), -40, np.float32)
    row[0, [2, 3, 4]] = 40
    history = [np.array([3, 4, 3])]
    own = sampler(min_length=4, no_repeat_ngram_size=2)
    assert own(row, sequences=[0], histories=history, length=3) == [
        3
    ]  # 2 ends it too early, and 3 4 was there
    own = sampler(repetition_penalty=1e6)
    assert own(row, sequences=[0], histories=history, length=3) == [2]


def test_without_a_seed_generators_differ():
    drawn = {choose(sampler(random_seed=-1), [0], 3)[0] for _ in range(20)}
    assert len(drawn) > 1
