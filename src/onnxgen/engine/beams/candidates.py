"""From rows of logits to the best continuations of all beams of a group: arrays in, a decision out.

    logits of 2 beams   [[ ... ], [ ... ]]        float32 [beams, vocab]
    log probabilities    each row minus the logarithm of its sum of exponentials
    candidates           the best of all beams' rows, running scores added; best first

Scores are float64. Of equal ones the lower beam goes first, then the lower token.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.edits import BANNED
from onnxgen.errors import BackendError

Row = npt.NDArray[np.float32]
Int64Array = npt.NDArray[np.int64]

_LEAST = float(BANNED) / 2
"""What is below is banned or forbidden, whatever was added to it: no candidate."""


_STRIPES = 32
"""Values of a row of which the largest is looked at first."""


@dataclass(frozen=True, slots=True)
class RankedRow:
    """What the continuations of one beam are ranked by.

    Attributes:
        values: float32 ``[vocab]``.
        shift: Taken from a value it gives the token's log probability.
    """

    values: Row
    shift: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """One beam and a token that may follow it.

    Attributes:
        beam: Index of the beam within its group.
        token: The token.
        score: Sum of the log probabilities, this token's included.
    """

    beam: int
    token: int
    score: float


@dataclass(frozen=True, slots=True)
class Decision:
    """What a step means for a group of beams.

    Attributes:
        ended: Candidates that become hypotheses, best first.
        opened: Candidates that are the beams from now on, best first.
        best: Score of the best candidate; ``-inf`` where there was none.
    """

    ended: tuple[Candidate, ...]
    opened: tuple[Candidate, ...]
    best: float


def log_sum_exp(row: Row) -> float:
    """Logarithm of the sum of exponentials of a row ``[vocab]``, summed in float64; -inf where nothing is allowed.

    Raises:
        BackendError: The row holds NaN or +inf.
    """
    most = row.max()
    if np.isnan(most) or most == math.inf:
        raise BackendError(
            f"the model returned {most} as the best logit of a beam; it is numerically broken on this backend"
        )
    if most <= _LEAST:
        return -math.inf
    return float(most) + math.log(np.exp(row - most).sum(dtype=np.float64))


def best_tokens(row: Row, count: int) -> Int64Array:
    """Ids of the ``count`` largest values of a row ``[vocab]``, largest first, of equal ones the lower id."""
    ids = np.flatnonzero(row >= _at_most_the_last(row, count)) if count < len(row) else np.arange(len(row))
    return ids[np.argsort(-row[ids], kind="stable")[:count]]


def _at_most_the_last(row: Row, count: int) -> np.float32:
    """A value that at least ``count`` of a row reach, and hardly more: a fifth of the cost of the exact one."""
    width = len(row) // _STRIPES
    if count <= width:
        # each of the best maxima is of another token
        row = row[: width * _STRIPES].reshape(_STRIPES, width).max(axis=0)
    return np.partition(row, len(row) - count)[len(row) - count]


def best_candidates(rows: Sequence[RankedRow], scores: Sequence[float], count: int) -> list[Candidate]:
    """The ``count`` best continuations of some beams, best first; fewer where fewer are allowed.

    Args:
        rows: Of each beam.
        scores: Sum of log probabilities of each beam so far.
        count: How many.
    """
    found: list[Candidate] = []
    for beam, (row, score) in enumerate(zip(rows, scores, strict=True)):
        if not math.isfinite(row.shift):
            continue
        ids = best_tokens(row.values, count)
        values = row.values[ids]
        allowed = values > _LEAST
        added = values[allowed].astype(np.float64) - row.shift + score
        found += map(Candidate, [beam] * len(added), ids[allowed].tolist(), added.tolist())
    found.sort(key=lambda c: -c.score)  # stable: beams and tokens are in order already
    return found[:count]


def decide(
    candidates: Sequence[Candidate], *, num_beams: int, eos_ids: Collection[int], limit: bool = False
) -> Decision:
    """Which candidates end, and which are the beams from now on.

    Args:
        candidates: Best first.
        num_beams: Beams of the group. Of candidates that end, only those count that are among as many best.
        eos_ids: Tokens that end a sequence.
        limit: Whether every candidate ends, because there is no room for more.
    """
    ended: list[Candidate] = []
    opened: list[Candidate] = []
    for rank, candidate in enumerate(candidates):
        if limit or candidate.token in eos_ids:
            if rank < num_beams:
                ended.append(candidate)
        elif len(opened) < num_beams:
            opened.append(candidate)
    best = candidates[0].score if candidates else -math.inf
    return Decision(tuple(ended), tuple(opened), best)
