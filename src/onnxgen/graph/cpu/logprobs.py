"""Log probabilities of tokens in rows of logits, compiled: of given ones with their ranks, and of the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from onnxgen.graph.cpu.compiled.draw_orders import BLOCK
from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls, cores, workspace

_ROWS = int(Header.TOKENS)
_WEIGHED_PER_S = 2e9
"""Elements of one thread, roughly."""

_FORBIDDEN = -1e20
"""Logits so far below the best forbid a token: its probability is 0."""


@dataclass(frozen=True, slots=True)
class RowLogprobs:
    """What a row of logits says of a token.

    Attributes:
        logprob: The natural logarithm of its softmax; ``-inf`` for a token that is forbidden.
        rank: 1 for the best token; of equal ones the lower id is better.
        top: Ids and log probabilities of the best tokens, the best first; forbidden ones are not among them.
    """

    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...] = ()


def row_logprobs(
    rows: Sequence[np.ndarray], tokens: Sequence[int], tops: Sequence[int]
) -> list[RowLogprobs | None]:
    """What rows say of a token each; exponentials are float32 and summed in float64: right to 3e-7.

    Args:
        rows: Logits, each float32 ``[vocab]``, contiguous, of one length.
        tokens: For each row an id in ``[0, vocab)``.
        tops: For each row how many of the best are wanted, 0 or more.

    Returns:
        None for rows that hold NaN, or whose largest logit is infinite.
    """
    if not rows:
        return []
    width, count, most = len(rows[0]), len(rows), min(max(tops), len(rows[0]))
    for row, token in zip(rows, tokens, strict=True):
        assert row.dtype == np.float32 and row.shape == (width,) and row.flags.c_contiguous
        assert 0 <= token < width
    given = np.array(
        [[row.__array_interface__["data"][0] for row in rows], list(tokens), list(tops)], np.int64
    )
    highest, totals = np.empty(count), np.empty(count)
    better, found = np.empty(count, np.int64), np.empty(count, np.int64)
    ids, logits = np.empty((count, most), np.int64), np.empty((count, most), np.float32)
    parts = min(count, cores())
    work = workspace().addresses(
        *(parts * -(-width // BLOCK) * size for size in (4, 8)), *(parts * width * 8 for _ in range(2))
    )
    addresses = [array.ctypes.data for array in (highest, totals, better, found, ids, logits)]
    _calls().run(
        [(_ROWS, width, *(row.ctypes.data for row in given), most, *addresses, *work)],
        [parts],
        seconds=count * width / _WEIGHED_PER_S,
        rows=count,
    )
    return [
        _row_logprobs(float(row[token]), best, total, rank, list(zip(of, at, strict=True))[:kept])
        if math.isfinite(best)
        else None
        for row, token, best, total, rank, kept, of, at in zip(
            rows,
            tokens,
            highest.tolist(),
            totals.tolist(),
            better.tolist(),
            found.tolist(),
            ids.tolist(),
            logits.tolist(),
            strict=True,
        )
    ]


def _row_logprobs(
    logit: float, highest: float, total: float, num_better: int, top: list[tuple[int, float]]
) -> RowLogprobs:
    whole = math.log(total)
    behind = logit - highest
    return RowLogprobs(
        logprob=behind - whole if behind > _FORBIDDEN else -math.inf,
        rank=num_better + 1,
        top=tuple((token, best - highest - whole) for token, best in top),
    )


@cache
def _calls() -> NodeCalls:
    return NodeCalls(logprobs_kernel())


def logprobs_kernel() -> StepKernel:
    """The kernel behind this module."""
    arguments = (
        "rows width addresses tokens tops most highest totals better found ids logits maxima sums items spare"
    )
    return step_kernel("log_probabilities:log_probabilities", arguments.split())
