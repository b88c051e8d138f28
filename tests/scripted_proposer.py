"""Drafts that are right, wrong, partly right, too long, no tokens at all, or not there, as a script has it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from onnxgen.engine.speculation.base import Draft, Wanted


class ScriptedProposer:
    """A proposer that knows what will follow, and says so now and then.

    Args:
        rng: Decides about each draft.
        following: The tokens that will follow a sequence.
        vocab: Wrong tokens are below it.
        failures: How often it raises.
        right: How often a draft is wholly right; None: that is random, too.
    """

    name = "prompt_lookup"
    needs_hidden_states = False

    def __init__(
        self,
        rng: random.Random,
        following: Callable[[Wanted], Sequence[int]],
        *,
        vocab: int,
        failures: float = 0.0,
        right: float | None = None,
    ):
        self.rng, self.following, self.vocab, self.failures = rng, following, vocab, failures
        self.right = rng.random() if right is None else right
        self.asked: list[int] = []
        self.forgotten: set[int] = set()
        self.closed = 0

    def propose(self, wanted):
        if self.rng.random() < self.failures:
            raise self.rng.choice([RuntimeError("no drafts today"), KeyError(3), ValueError("odd")])
        return [self._draft(each) for each in wanted]

    def _draft(self, wanted: Wanted) -> Draft | None:
        assert wanted.key not in self.forgotten, "asked for a sequence that has ended"
        assert wanted.num_tokens >= 1
        assert len(wanted.history) == wanted.row.num_tokens
        assert np.array_equal(wanted.history, wanted.row.history)
        self.asked.append(wanted.num_tokens)
        rng = self.rng
        if rng.random() < 0.1:
            return None
        tokens = [int(token) for token in self.following(wanted)]
        length = wanted.num_tokens if rng.random() < 0.7 else rng.randint(1, wanted.num_tokens + 3)
        tokens = (tokens + [rng.randrange(self.vocab) for _ in range(length)])[:length]
        if rng.random() >= self.right:
            at = rng.randrange(length)
            tokens[at:] = [rng.randrange(self.vocab) for _ in tokens[at:]]
            if rng.random() < 0.1:
                tokens[at] = rng.choice([-1, self.vocab, 1 << 40])
        return Draft(tuple(tokens), kind=rng.randrange(3))

    def forget(self, key):
        self.forgotten.add(key)

    def close(self):
        self.closed += 1
