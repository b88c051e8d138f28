import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxgen.engine.beams.candidates import (
    Candidate,
    Decision,
    RankedRow,
    best_candidates,
    best_tokens,
    decide,
    log_sum_exp,
)
from onnxgen.engine.sampling.edits import BANNED
from onnxgen.errors import BackendError


def row(*values):
    return np.array(values, np.float32)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5000), st.integers(1, 300), st.sampled_from([2, 50, 10**6]))
def test_the_best_tokens_are_those_of_a_full_sort(seed, vocab, count, levels):
    rng = np.random.default_rng(seed)
    values = rng.integers(levels, size=vocab).astype(np.float32)
    wanted = sorted(range(vocab), key=lambda token: (-values[token], token))[:count]
    assert best_tokens(values, count).tolist() == wanted


def test_the_logarithm_of_a_sum_of_exponentials_neither_overflows_nor_loses_digits():
    rng = np.random.default_rng()
    values = (rng.normal(size=5000) * 30).astype(np.float32)
    exact = values.astype(np.float64)
    most = exact.max()
    wanted = most + math.log(math.fsum(np.exp(exact - most)))
    assert log_sum_exp(values) == pytest.approx(wanted, rel=1e-7)
    assert log_sum_exp(values + np.float32(1000)) == pytest.approx(wanted + 1000, abs=1e-3)


def test_a_row_without_an_allowed_token_has_none():
    assert log_sum_exp(row(BANNED, BANNED)) == -math.inf
    assert log_sum_exp(row(-np.inf, -np.inf)) == -math.inf
    assert best_candidates([RankedRow(row(BANNED, -np.inf), -math.inf)], [0.0], 2) == []


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_broken_row_is_an_error(broken):
    with pytest.raises(BackendError, match="numerically broken"):
        log_sum_exp(row(1, broken, 2))


def test_candidates_are_of_all_beams_best_first():
    rows = [RankedRow(row(0, -1, -2), 0.0), RankedRow(row(-3, 0, -5), 0.5)]
    assert best_candidates(rows, [-1.0, -0.5], 4) == [
        Candidate(0, 0, -1.0),
        Candidate(1, 1, -1.0),
        Candidate(0, 1, -2.0),
        Candidate(0, 2, -3.0),
    ]


def test_banned_and_forbidden_tokens_are_no_candidates():
    rows = [RankedRow(row(0, BANNED, -np.inf, -1), 0.0)]
    assert [c.token for c in best_candidates(rows, [0.0], 4)] == [0, 3]


def test_only_ends_among_the_best_count_and_the_others_give_way():
    candidates = [Candidate(0, token, -float(token)) for token in range(6)]
    decision = decide(candidates, num_beams=2, eos_ids={1, 2})
    assert decision == Decision(ended=(candidates[1],), opened=(candidates[0], candidates[3]), best=0.0)


def test_at_the_limit_the_best_candidates_end_whatever_they_are():
    candidates = [Candidate(0, token, -float(token)) for token in range(6)]
    decision = decide(candidates, num_beams=2, eos_ids={1}, limit=True)
    assert decision.ended == tuple(candidates[:2])
    assert decision.opened == ()


def test_without_candidates_nothing_goes_on():
    assert decide([], num_beams=2, eos_ids={1}) == Decision((), (), -math.inf)
