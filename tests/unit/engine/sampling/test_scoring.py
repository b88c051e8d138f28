"""How probable tokens are said to be, beside NumPy in float64."""

import secrets

import numpy as np
import pytest

from onnxgen.engine.sampling.rows import Drawn
from onnxgen.engine.sampling.scoring import processed_logprobs, raw_logprobs
from onnxgen.graph.cpu.draws import Draw, draw_tokens
from token_scores import check_score, log_softmax

VOCAB = 517


@pytest.fixture
def rng():
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def row_of(rng, *, width=VOCAB):
    return rng.normal(0, 3, width).astype(np.float32)


@pytest.mark.parametrize("top", [0, 1, 7, VOCAB])
def test_raw_ones_are_of_the_softmax_of_a_row(rng, top):
    rows = [row_of(rng) for _ in range(5)]
    rows[1][rng.integers(0, VOCAB, 30)] = -np.inf
    tokens = [int(row.argmax()) if i % 2 else int(row.argmin()) for i, row in enumerate(rows)]
    for row, token, found in zip(rows, tokens, raw_logprobs(rows, tokens, [top] * 5), strict=True):
        check_score(found, log_softmax(row), token, top)


def test_a_row_that_is_no_distribution_has_none(rng):
    broken = row_of(rng)
    broken[3] = np.nan
    assert raw_logprobs([broken, row_of(rng)], [1, 1], [0, 0])[0] is None


@pytest.mark.parametrize("top", [0, 1, 4, 40, VOCAB])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_processed_ones_are_of_what_temperature_and_truncation_leave(rng, temperature, top):
    row = row_of(rng)
    scaled = log_softmax(row.astype(np.float64) / temperature)
    cases = [(Draw(temperature), np.full(VOCAB, True))]
    kept = np.zeros(VOCAB, bool)
    kept[np.argsort(-row)[:20]] = True
    cases.append((Draw(temperature, top_k=20), kept))
    cases.append((Draw(temperature, min_p=0.02), scaled >= scaled.max() + np.log(0.02)))
    for draw, kept in cases:
        [token] = draw_tokens([row], [draw])
        expected = log_softmax(np.where(kept, scaled, -np.inf))
        check_score(processed_logprobs(Drawn(row, draw), token, top), expected, token, top)


@pytest.mark.parametrize("draw", [Draw(), Draw(1.0, top_k=1), Draw(0.7, top_p=0.0)])
def test_where_nothing_is_drawn_the_row_itself_counts(rng, draw):
    row = row_of(rng)
    token = int(row.argmax())
    check_score(processed_logprobs(Drawn(row, draw), token, 3), log_softmax(row), token, 3)


def test_of_equally_probable_tokens_the_lower_ids_come_first():
    row = np.zeros(VOCAB, np.float32)
    row[100:] = -5
    found = processed_logprobs(Drawn(row, Draw(1.0)), 40, 3)
    assert found is not None
    assert found.rank == 41
    assert [token for token, _ in found.top] == [0, 1, 2]
