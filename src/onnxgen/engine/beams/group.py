"""`BeamGroup`: beams that compete with each other, and what became of those that ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from onnxgen.engine.beams.candidates import Candidate, Decision, RankedRow, best_candidates, decide
from onnxgen.engine.beams.hypotheses import Hypotheses
from onnxgen.engine.beams.options import BeamOptions, BeamRules

Answer = Callable[[int], tuple[int, ...]]
"""Tokens that a beam has appended to the prompt."""


class BeamGroup:
    """Beams of one prompt that compete with each other. It begins with one, the prompt itself.

    Args:
        options: What was asked for.
        rules: How to count.
        eos_ids: Tokens that end a sequence.
        prompt_tokens: Length of the prompt.
        max_new_tokens: The most that are appended to it, at least 1.
    """

    def __init__(
        self,
        options: BeamOptions,
        rules: BeamRules,
        *,
        eos_ids: Collection[int],
        prompt_tokens: int,
        max_new_tokens: int,
    ) -> None:
        self._num_beams = options.group_beams
        self._rules = rules
        self._eos_ids = frozenset(eos_ids)
        self._prompt_tokens = prompt_tokens
        self._max_new_tokens = max_new_tokens
        self._hypotheses = Hypotheses(
            keep=self._num_beams,
            length_penalty=options.length_penalty,
            early_stopping=options.early_stopping,
            max_length=self._length(max_new_tokens),
        )
        self._num_new_tokens = 0
        self._done = False
        self.scores: list[float] = [0.0]

    @property
    def done(self) -> bool:
        """Whether the search ended here; open beams, if any, do not matter any more."""
        return self._done

    def decide(self, rows: Sequence[RankedRow]) -> Decision:
        """What a step means for the group; changes nothing.

        Args:
            rows: Of each open beam.
        """
        count = max(2, 1 + len(self._eos_ids)) * self._num_beams
        is_last = self._num_new_tokens + 1 == self._max_new_tokens
        return decide(
            best_candidates(rows, self.scores, count),
            num_beams=self._num_beams,
            eos_ids=self._eos_ids,
            limit=is_last and self._rules.limit_ends == "candidates",
        )

    def commit(self, decision: Decision, answer: Answer) -> None:
        """Take a decision over.

        Args:
            decision: Of this step.
            answer: Answers of the beams before it.
        """
        self._num_new_tokens += 1
        for candidate in decision.ended:
            self._add(candidate, answer)
        self.scores = [candidate.score for candidate in decision.opened]
        best = decision.best
        if self._rules.best_of == "beams":
            best = max(self.scores, default=-math.inf)
        length = self._length(self._num_new_tokens) - (self._rules.length_of == "sequence")
        self._done = not self.scores or self._hypotheses.are_final(best, length=length)

    def close(self, answer: Answer) -> None:
        """End the search: open beams become hypotheses, unless it had ended before."""
        self._hypotheses, self._done = self.results(answer), True

    def results(self, answer: Answer) -> Hypotheses:
        """Hypotheses as if the search ended now.

        Args:
            answer: Answers of the open beams.
        """
        if self._done:
            return self._hypotheses
        results = self._hypotheses.copy()
        for beam, score in enumerate(self.scores):
            results.add(answer(beam), score, length=self._length(self._num_new_tokens), eos_id=None)
        return results

    def _add(self, candidate: Candidate, answer: Answer) -> None:
        """Make a hypothesis of a candidate of the step that was just counted."""
        tokens = answer(candidate.beam)
        ends = candidate.token in self._eos_ids
        length = self._length(self._num_new_tokens)
        if ends and self._rules.length_of == "sequence":
            length -= 1
        self._hypotheses.add(
            tokens if ends else (*tokens, candidate.token),
            candidate.score,
            length=length,
            eos_id=candidate.token if ends else None,
        )

    def _length(self, num_new_tokens: int) -> int:
        """What the length penalty sees of a sequence with so many new tokens."""
        return num_new_tokens + (self._prompt_tokens if self._rules.length_of == "sequence" else 0)
