"""Winners and scores from what trees voted for each class, as ONNX Runtime has them.

A class that got no vote in a row has score 0 there, whatever its base value is, unless there are more than two classes.
With two, the score of the second decides; where nobody voted for it, that of the first takes its place and the row's
scores are made of it alone.

Two things are not taken over: with two base values ONNX Runtime loses the votes for the second class, and integer
labels become 0 and 1 where votes are for both classes or there is one class only. Here votes count and labels are the
model's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxgen.graph.cpu.scores import transformed, with_second_class


@dataclass(frozen=True, slots=True)
class ClassVotes:
    """How sums of votes become classes and scores.

    Attributes:
        base: What is added to the scores: nothing, one value for each class, or of two classes for the first.
        transform: One of `scores.TRANSFORMS`.
        one_id: Whether all votes are for the same class id.
        probabilities: Whether no vote is negative.
    """

    base: np.ndarray
    transform: str
    one_id: bool
    probabilities: bool

    def decide(self, sums: np.ndarray, voted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The index of each row's class and the scores.

        Args:
            sums: ``[rows, classes]`` votes added up.
            voted: ``[rows, classes]`` whether there were any.
        """
        classes = sums.shape[1]
        if classes == 2:
            return self._of_two(sums, voted)
        scores = sums + self.base if self.base.size else sums
        candidates = scores if self.base.size else np.where(voted, scores, -np.inf)
        return candidates.argmax(axis=1), transformed(scores, self.transform)

    def _of_two(self, sums: np.ndarray, voted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        added = np.zeros(2, sums.dtype)
        added[: self.base.size] = self.base
        scores = np.where(voted, sums + added, 0)
        has_second = voted[:, 1]
        likely = self.one_id and self.probabilities
        decisive = np.where(has_second, scores[:, 1], scores[:, 0])
        alone = with_second_class(scores[:, 0], self.transform, probabilities=likely)
        as_they_are = (has_second | (self.base.size == 2))[:, None]
        return (
            (decisive > (0.5 if likely else 0)).astype(np.int64),
            np.where(as_they_are, transformed(scores, self.transform), alone),
        )
