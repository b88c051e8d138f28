"""How many tokens are guessed: `Width` learns from rounds what pays, `Cooldown` pauses where nothing is right.

Numbers and rules are those of onnxruntime-genai (``AdaptiveKController`` and ``SpeculativeCooldownController``).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

from onnxgen.facade.search.round_counts import RoundCounts

MAX_WIDTH = 16

_WEIGHT = 0.25
"""Of a new round in the averages."""
_LOW, _HIGH = 0.5, 0.75
"""Acceptance below which fewer tokens are tried, and from which more are."""
_KEPT, _LOST = 0.97, 0.80
"""Throughput, as a share of the other width's, from which a tried width stays, and below which it is given up at once."""
_ENOUGH = 2
"""Rounds to judge by."""
_REST, _LONG_REST = 1, 6
"""Rounds before another width is tried: after one that stayed, and after one that was given up."""
_FAILURES = 3


@dataclass(frozen=True, slots=True)
class Round:
    """A completed round.

    Attributes:
        width: Tokens that were guessed.
        evaluated: Of these, how many were looked at.
        accepted: Of these, how many were right.
        emitted: Tokens that came out of it.
        is_full: As many were guessed as were asked for.
        elapsed_ms: What it took.
    """

    width: int
    evaluated: int
    accepted: int
    emitted: int
    is_full: bool
    elapsed_ms: float


@dataclass(slots=True)
class _Estimate:
    tokens: float = 0.0
    elapsed_ms: float = 0.0
    acceptance: float = 0.0
    rounds: int = 0

    @property
    def throughput(self) -> float:
        return self.tokens / self.elapsed_ms if self.elapsed_ms > 0 else 0.0

    def learn(self, seen: Round) -> None:
        weight = _WEIGHT if self.rounds else 1.0
        self.tokens += weight * (seen.emitted - self.tokens)
        self.elapsed_ms += weight * (seen.elapsed_ms - self.elapsed_ms)
        self.acceptance += weight * (seen.accepted / seen.evaluated - self.acceptance)
        self.rounds += 1


class Width:
    """How many tokens are guessed in a round.

    Args:
        fixed: So many, if nothing is to be learnt.
        lowest: Learn, beginning with so many and never below; 0: do not.
        counts: Told of what happens.
    """

    def __init__(self, *, fixed: int, lowest: int, counts: RoundCounts) -> None:
        self._learns = lowest > 0
        self.lowest = lowest or fixed
        self._counts = counts
        self.reset()

    def reset(self) -> None:
        """Forget what was learnt."""
        self.now = self.lowest
        self._estimates = [_Estimate() for _ in range(MAX_WIDTH + 1)]
        self._tried_from: int | None = None
        self._rounds = self._rest = 0

    def copy(self, counts: RoundCounts) -> Width:
        """Another one that knows as much."""
        other = copy.copy(self)
        other._counts = counts
        other._estimates = [replace(estimate) for estimate in self._estimates]
        return other

    @property
    def throughput(self) -> float:
        """Tokens per millisecond that are expected of the width; 0 while nothing is known."""
        own = self._estimates[self.now]
        if own.rounds or self._tried_from is None:
            return own.throughput
        return self._estimates[self._tried_from].throughput

    def learn(self, seen: Round) -> None:
        """Learn from a completed round, if it says something of the width."""
        says = seen.width == self.now and seen.is_full and seen.evaluated and seen.emitted
        if not self._learns or not says or seen.elapsed_ms <= 0:
            return
        own = self._estimates[self.now]
        own.learn(seen)
        self._counts.adaptive_k_observations += 1
        self._rounds += 1
        if self._tried_from is not None:
            self._judge(own, self._tried_from)
        elif self._rest:
            self._rest -= 1
        elif own.rounds >= _ENOUGH:
            if own.acceptance < _LOW and self.now > self.lowest:
                self._try(self.now - 1)
            elif own.acceptance >= _HIGH and self.now < MAX_WIDTH and self._rounds >= _ENOUGH:
                self._try(self.now + 1)

    def _try(self, width: int) -> None:
        self._tried_from, self._rounds = self.now, 0
        self._counts.adaptive_k_probes += 1
        self._move(width)

    def _judge(self, own: _Estimate, tried_from: int) -> None:
        other = self._estimates[tried_from].throughput
        if own.throughput < other * _LOST:
            stays = False
        elif self._rounds < _ENOUGH:
            return
        else:
            is_accepted = self.now < tried_from or own.acceptance >= _HIGH
            stays = is_accepted and own.throughput >= other * _KEPT
        if not stays:
            self._move(tried_from)
        self._tried_from, self._rounds = None, 0
        self._rest = _REST if stays else _LONG_REST

    def _move(self, width: int) -> None:
        if width > self.now:
            self._counts.adaptive_k_increases += 1
        else:
            self._counts.adaptive_k_decreases += 1
        self.now = width


class Cooldown:
    """A plain step after some rounds of the lowest width in which no guess was right.

    Args:
        enabled: False: never.
        counts: Told of what happens.
    """

    def __init__(self, *, enabled: bool, counts: RoundCounts) -> None:
        self._enabled = enabled
        self._counts = counts
        self.reset()

    def reset(self) -> None:
        """Forget past rounds."""
        self._failures = 0
        self.remaining = 0

    def copy(self, counts: RoundCounts) -> Cooldown:
        """Another one that knows as much."""
        other = copy.copy(self)
        other._counts = counts
        return other

    def learn(self, seen: Round, *, lowest: int) -> None:
        """Learn from a completed round; ``lowest`` is the lowest width."""
        if not self._enabled or not seen.evaluated:
            return
        self._failures = 0 if seen.accepted or seen.width != lowest else self._failures + 1
        if self._failures == _FAILURES:
            self._failures, self.remaining = 0, 1
            self._counts.cooldown_entries += 1

    def step(self) -> None:
        """A plain step was done."""
        self.remaining -= 1
        self._counts.cooldown_steps += 1
