"""What log probabilities must be, straight from rows of logits in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from onnxgen.engine.sampling.logprobs import TokenLogprobs

TOLERANCE = 2e-5
"""Between compiled sums and ours, of logits of ordinary size."""


def log_softmax(row) -> np.ndarray:
    """float64 ``[vocab]``."""
    exact = np.asarray(row, np.float64)
    shifted = exact - exact.max()
    return shifted - math.log(np.exp(shifted).sum())


def check_score(
    found: TokenLogprobs | None, logprobs: np.ndarray, token: int, top: int, *, tolerance=TOLERANCE
):
    """What is told of a token is what its distribution says.

    Args:
        found: What was told.
        logprobs: Of all tokens ``[vocab]``, ``-inf`` where there is no probability.
        token: Which token it must be about.
        top: How many alternatives were asked for.
        tolerance: Of logarithms; tokens closer to each other may change places.
    """
    assert found is not None
    assert found.token_id == token
    assert math.isclose(found.logprob, logprobs[token], abs_tol=tolerance), (found, logprobs[token])
    better = int((logprobs > logprobs[token] + tolerance).sum())
    no_worse = int((logprobs >= logprobs[token] - tolerance).sum())
    assert better < found.rank <= max(no_worse, better + 1), (found, better, no_worse)
    possible = int((logprobs > -math.inf).sum())
    assert len(found.top) == min(top, possible), found
    ids = [i for i, _ in found.top]
    assert len(set(ids)) == len(ids)
    best = np.sort(logprobs)[::-1][: len(ids)]
    for (i, value), expected in zip(found.top, best, strict=True):
        assert math.isclose(value, logprobs[i], abs_tol=tolerance), (i, value, logprobs[i])
        assert math.isclose(value, expected, abs_tol=tolerance), (i, value, expected)


def check_prompt_scores(
    found: Sequence[TokenLogprobs | None] | None,
    rows,
    prompt: Sequence[int],
    *,
    start: int,
    top: int,
    tolerance=TOLERANCE,
):
    """What is told of a prompt, where ``rows[i]`` are the logits after its first ``i + 1`` tokens."""
    assert found is not None
    assert len(found) == len(prompt) - start
    for position, score in enumerate(found, start=start):
        if position == 0:
            assert score is None
        else:
            check_score(score, log_softmax(rows[position - 1]), prompt[position], top, tolerance=tolerance)
