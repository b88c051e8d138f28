"""Log probabilities of rows of logits, against float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.logprobs import row_logprobs

WIDTHS = [1, 2, 3, 15, 16, 17, 63, 64, 65, 511, 512, 513, 1000, 151936]
LOWEST = np.finfo(np.float32).min


def expected(row):
    """Log probabilities, and ids from the best downwards."""
    wide = row.astype(np.float64)
    best = wide.max()
    with np.errstate(divide="ignore"):
        logs = wide - best - math.log(np.exp(wide - best).sum())
    return np.where(wide - best < -1e20, -np.inf, logs), np.argsort(-row, kind="stable")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scale", [0.0, 0.5, 3.0, 50.0, 1e4])
def test_log_probabilities_and_ranks_are_those_of_the_softmax(width, scale):
    rng = fresh_rng()
    rows = [rng.normal(scale=scale, size=width).astype(np.float32) for _ in range(4)]
    rows[1] = np.round(rows[1])
    tokens = [int(rng.integers(width)), int(rows[1].argmax()), 0, width - 1]
    tops = [0, 5, 1, 20]
    for row, token, top, found in zip(rows, tokens, tops, row_logprobs(rows, tokens, tops), strict=True):
        logs, order = expected(row)
        assert found.logprob == pytest.approx(logs[token], rel=1e-6, abs=1e-6)
        assert found.rank == 1 + order.tolist().index(token)
        assert [own for own, _ in found.top] == order[:top].tolist()
        assert [log for _, log in found.top] == pytest.approx(logs[order[:top]], rel=1e-6, abs=1e-6)


def test_all_tokens_may_be_asked_for():
    rng = fresh_rng()
    row = np.round(rng.normal(scale=3, size=700)).astype(np.float32)
    logs, order = expected(row)
    for top in (699, 700, 701, 2**40):
        (found,) = row_logprobs([row], [3], [top])
        assert [token for token, _ in found.top] == order[:top].tolist()
        assert [log for _, log in found.top] == pytest.approx(logs[order[:top]], abs=1e-6)


@pytest.mark.parametrize("forbidden", [-np.inf, LOWEST])
def test_forbidden_tokens_are_not_among_the_best(forbidden):
    rng = fresh_rng()
    row = rng.normal(size=1000).astype(np.float32)
    row[rng.permutation(1000)[:995]] = forbidden
    allowed = np.flatnonzero(row > LOWEST)
    token = int(np.flatnonzero(row == forbidden)[7])
    (found,) = row_logprobs([row], [token], [20])
    assert sorted(own for own, _ in found.top) == allowed.tolist()
    assert sum(math.exp(log) for _, log in found.top) == pytest.approx(1)
    assert found.logprob == -math.inf
    assert found.rank == 5 + 7 + 1


def test_a_row_of_nothing_but_lowest_floats_is_a_row():
    (found,) = row_logprobs([np.full(40, LOWEST)], [3], [2])
    assert found.logprob == pytest.approx(-math.log(40))
    assert found.rank == 4
    assert [token for token, _ in found.top] == [0, 1]


@pytest.mark.parametrize("width", [1, 17, 1000])
@pytest.mark.parametrize("broken", [np.nan, np.inf, None])
def test_a_broken_row_has_none_and_its_neighbours_have_theirs(width, broken):
    rng = fresh_rng()
    good, bad = rng.normal(size=(2, width)).astype(np.float32)
    if broken is None:
        bad[:] = -np.inf
    else:
        bad[rng.integers(width)] = broken
    first, middle, last = row_logprobs([good, bad, good], [0] * 3, [3] * 3)
    assert middle is None
    assert first == last == row_logprobs([good], [0], [3])[0]


def test_a_row_depends_on_itself_alone():
    rng = fresh_rng()
    rows = [rng.normal(scale=2, size=3000).astype(np.float32) for _ in range(20)]
    tokens, tops = rng.integers(3000, size=20).tolist(), rng.integers(30, size=20).tolist()
    alone = [
        row_logprobs([row], [token], [top])[0] for row, token, top in zip(rows, tokens, tops, strict=True)
    ]
    order = rng.permutation(20).tolist()
    together = row_logprobs([rows[i] for i in order], [tokens[i] for i in order], [tops[i] for i in order])
    assert together == [alone[i] for i in order]
    assert row_logprobs([], [], []) == []
