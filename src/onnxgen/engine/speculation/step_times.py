"""`StepTimes`: how much longer a step takes with more rows, learned from the steps that there were."""

from __future__ import annotations

from bisect import bisect_left, insort

_SLOPE = 0.06
"""What one more row is thought to add to a step, as a share of it, where nothing like it was measured."""

_LEVEL_SHARE, _LEAST_SHAPE_SHARE = 0.25, 0.1
"""How much a step counts for the level, and, once many were seen, for the shape."""

_FORGETTING = 0.999
"""What is left of a measurement's weight after a step that had another number of rows."""

_DOUBT = 0.25
"""The weight of what neighbours say, beside one of each measurement."""

_LOWEST, _HIGHEST = 0.3, 2.0
"""Steps that took less or more than this, against what was expected, count as if they had taken this."""


class StepTimes:
    """Seconds of steps by their number of rows: a shape, and a level that the machine's mood and the context move.

    ::

        seconds of a step with n rows  =  level * shape[n]

    All steps move the level; a step that follows one with another number of rows moves the shape at its own. So numbers of
    rows are compared by steps that came close together, whatever the machine did in between. What was seen long ago counts less and less against what its neighbours say, so that
    what once was slow is tried again.
    """

    def __init__(self) -> None:
        self._level: float | None = None
        self._rows: list[int] = []
        self._shape: dict[int, float] = {}
        self._weight: dict[int, float] = {}
        self._seen: dict[int, int] = {}
        self._steps = self._last_rows = 0

    def observe(self, rows: int, seconds: float) -> None:
        """A step with so many rows took so long."""
        self._steps += 1
        expected = self.relative(rows)
        if self._level is None:
            self._level = seconds / expected
        ratio = min(max(seconds / (self._level * expected), _LOWEST), _HIGHEST)
        weight = self._weight_of(rows)
        if rows not in self._shape:
            insort(self._rows, rows)
            self._shape[rows] = expected
        # a step like the one before says nothing about others
        comes_again = rows == self._last_rows and weight > 0
        # what was expected counts as one more measurement: the first may be of a step that stalled
        share = 0.0 if comes_again else max(_LEAST_SHAPE_SHARE, 1 / (weight + 2))
        self._shape[rows] *= 1 + share * (ratio - 1)
        self._weight[rows], self._seen[rows] = weight + (not comes_again), self._steps
        self._level *= 1 + _LEVEL_SHARE * (1 - share) * (ratio - 1)
        self._last_rows = rows

    def relative(self, rows: float) -> float:
        """How long a step with so many rows, on average, takes, in a unit that stays the same for a while."""
        whole = int(rows)
        own = self._shape.get(whole) if whole == rows else None
        if own is None:
            return self._between(rows)
        weight = self._weight_of(whole)
        return (weight * own + _DOUBT * self._between(rows)) / (weight + _DOUBT)

    def seconds(self, rows: int) -> float | None:
        """The same in seconds; None: no step was seen yet."""
        return None if self._level is None else self._level * self.relative(rows)

    def _weight_of(self, rows: int) -> float:
        if rows not in self._weight:
            return 0.0
        return min(self._weight[rows], 1 / _LEAST_SHAPE_SHARE) * _FORGETTING ** (
            self._steps - self._seen[rows]
        )

    def _between(self, rows: float) -> float:
        """What the nearest other numbers of rows say."""
        at = bisect_left(self._rows, rows)
        below = self._rows[at - 1] if at else None
        if at < len(self._rows) and self._rows[at] == rows:
            at += 1
        above = self._rows[at] if at < len(self._rows) else None
        if below is None and above is None:
            return 1.0
        if below is None or above is None:
            near = above if below is None else below
            assert near is not None
            return self._shape[near] * max(1 + _SLOPE * (rows - near), 0.1)
        share = (rows - below) / (above - below)
        return self._shape[below] + share * (self._shape[above] - self._shape[below])
