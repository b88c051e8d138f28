"""How probable tokens are: under what the model said, or under what they were drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.logprobs import TokenLogprobs
from onnxgen.engine.sampling.rows import Drawn
from onnxgen.graph.cpu.draws import distribution
from onnxgen.graph.cpu.logprobs import row_logprobs

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.integer[Any]]


def raw_logprobs(
    rows: Sequence[npt.NDArray[np.float32]], tokens: Sequence[int], tops: Sequence[int]
) -> list[TokenLogprobs | None]:
    """How probable tokens are under the softmax of their rows.

    Args:
        rows: Logits, each float32 ``[vocab]``.
        tokens: One for each row.
        tops: How many alternatives are told of each.

    Returns:
        None for rows that are no distribution: the model returned NaN, or infinity.
    """
    return [
        None if score is None else TokenLogprobs(token, score.logprob, score.rank, score.top)
        for token, score in zip(tokens, row_logprobs(rows, tokens, tops), strict=True)
    ]


def processed_logprobs(drawn: Drawn, token: int, top: int) -> TokenLogprobs | None:
    """How probable a token was in what it was drawn from; where nothing was drawn, under the softmax of that row.

    Args:
        drawn: What it was drawn from.
        token: The token.
        top: How many alternatives are told, of those that could have been drawn.
    """
    if drawn.draw.takes_best:
        return raw_logprobs([drawn.row], [token], [top])[0]
    ids, shares = distribution(drawn.row, drawn.draw)
    own = shares[ids == token]
    assert own.size == 1, f"token {token} was drawn from a distribution without it"
    better = (shares > own) | ((shares == own) & (ids < token))
    best = _best(ids, shares, top)
    alternatives = zip(ids[best].tolist(), np.log(shares[best]).tolist(), strict=True)
    return TokenLogprobs(token, float(np.log(own[0])), 1 + int(np.count_nonzero(better)), tuple(alternatives))


def _best(ids: Ids, shares: Floats, top: int) -> Ids:
    """Where the best tokens are, best first, of equal ones the lower id first."""
    if top == 0:
        return np.empty(0, np.int64)
    least = np.partition(shares, -top)[-top] if top < len(shares) else 0.0
    found = np.flatnonzero(shares >= least)
    return found[np.lexsort((ids[found], -shares[found]))][:top]
