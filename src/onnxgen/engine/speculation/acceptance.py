"""`accept`: how far a draft that was drawn from one distribution stands as if it had been drawn from another.

A token ``d`` drawn from ``q`` is kept with probability ``min(1, p(d) / q(d))``; else one is drawn from what ``p`` has more
than ``q``. What stands is then distributed as ``p``, whatever ``q`` is (https://arxiv.org/abs/2211.17192,
https://arxiv.org/abs/2302.01318)::

    draft        d0      d1      d2                      drawn from q0, q1, q2
    targets      p0      p1      p2      p3              p1 is what follows if d0 stands, and so on
    stands       d0      d1      x                       d2 does not: x is drawn from max(0, p2 - q2), and p3 is of no use
                 d0      d1      d2      x               all do: x is drawn from p3, as without a draft

Random numbers are found by counter, so that a run repeats. At every position there are three that have nothing to do with
each other: the one that tokens are drawn with where nothing was guessed, and here one that decides whether a guess stands
and one that draws what stands in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.rows import Drawn
from onnxgen.engine.speculation.base import Distribution, Draft
from onnxgen.graph.cpu.draws import distribution, draw_tokens

_STANDS, _REPLACES = 2, 3
"""Purposes of random numbers at a position, beside those of `onnxgen.graph.cpu.compiled.philox` (0 and 1)."""


def accept(
    draft: Draft, targets: Sequence[Drawn], *, seed: int, stream: int, position: int
) -> tuple[int, ...]:
    """The tokens of a draft that stand, and one more.

    They must not have been selected by what they are: leaving out or cutting off tokens that were drawn, because of what
    was drawn, changes what answers are like. Cutting off what comes behind a token does not.

    Args:
        draft: What was guessed. A guess without a distribution counts as one that could not have been another.
        targets: What the model's tokens are drawn from: after all before the draft, and after each of its tokens.
        seed: Which random numbers are the sequence's: 0 to 2**64 - 1.
        stream: Likewise.
        position: Length of the sequence before the draft.

    Returns:
        1 to ``len(draft.tokens) + 1`` tokens. Where the model takes the best token, they are its best tokens; where target
        and draft have the very same distributions, all stand.
    """
    assert len(targets) == len(draft.tokens) + 1, f"{len(targets)} rows for {len(draft.tokens)} tokens"
    known = draft.distributions
    assert known is None or len(known) == len(draft.tokens), "every token of a draft was drawn from something"
    for at, token in enumerate(draft.tokens):
        target = distribution(targets[at].row, targets[at].draw)
        guess = _certain(token) if known is None else known[at]
        here = (seed, stream, position + at)
        if not _uniform(*here, _STANDS) * _share(guess, token) < _share(target, token):
            return (*draft.tokens[:at], _drawn_beyond(target, guess, _uniform(*here, _REPLACES)))
    last = targets[-1]
    return (*draft.tokens, draw_tokens([last.row], [last.draw])[0])


def _certain(token: int) -> Distribution:
    return np.array([token], np.int64), np.ones(1)


def _share(shares: Distribution, token: int) -> float:
    """A token's probability; 0 where it has none."""
    ids, values = shares
    if token < len(ids) and ids[token] == token:  # all tokens may be drawn
        return float(values[token])
    at = np.flatnonzero(ids == token)
    return float(values[at[0]]) if at.size else 0.0


def _drawn_beyond(target: Distribution, guess: Distribution, number: float) -> int:
    """A token drawn from what the target has more than the guess: the first that the number's share of the sum reaches.

    Where rounding leaves nothing of that, the two are as good as equal, and the target is drawn from.
    """
    ids, shares = target
    beyond = np.maximum(shares - _aligned(guess, ids), 0)
    sums = np.cumsum(beyond)
    if not sums[-1] > 0:
        sums = np.cumsum(shares)
    place = int(np.searchsorted(sums, number * sums[-1], side="right"))
    return int(ids[min(place, int(np.argmax(sums)))])


def _aligned(guess: Distribution, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Probabilities of some tokens under a guess, float64 ``[ids]``; neither side's ids are in any order."""
    own, shares = guess
    if len(own) == len(ids) and np.array_equal(own, ids):
        return shares
    table = np.zeros(1 + max(int(own.max(initial=0)), int(ids.max(initial=0))))
    table[own] = shares
    return table[ids]


def _uniform(seed: int, stream: int, position: int, purpose: int) -> float:
    """The float64 in ``[0, 1)`` of a purpose at a position of a stream, as `onnxgen.graph.cpu.compiled.philox` has them."""
    numbers = np.random.Philox(key=seed + (stream << 64), counter=position + (purpose << 64))
    return (int(numbers.random_raw()) >> 11) * 2.0**-53
