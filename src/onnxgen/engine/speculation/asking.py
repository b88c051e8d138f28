"""`AskedProposer`: a proposer whose mistakes cost nobody anything, and what it has done so far."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from operator import index
from statistics import median

from onnxgen.engine.speculation.base import Distribution, Draft, Proposer, Wanted
from onnxgen.engine.speculation.drafts import shortened
from onnxgen.engine.speculation.stats import MethodStats

_log = logging.getLogger(__name__)

_MOST_FAILURES = 3
"""A proposer that failed so often is not asked again."""

_TIMES = 9
"""So many measured times are remembered: what is in the middle of them counts."""


class AskedProposer:
    """A proposer as the engine asks it.

    Args:
        method: What requests call it.
        proposer: Guesses.
        num_tokens: Token ids are below it.

    Attributes:
        seconds_per_token: What guessing took lately, for each token of the longest draft; 0.0 before the second time: the first may wait
            for much that happens once.
        rounds, verified_tokens, accepted_tokens, fully_accepted, not_accepted: See `MethodStats`.
    """

    def __init__(self, method: str, proposer: Proposer, *, num_tokens: int) -> None:
        self.method = method
        self.seconds_per_token = 0.0
        self.rounds = self.verified_tokens = self.accepted_tokens = 0
        self.fully_accepted = self.not_accepted = 0
        self._proposer = proposer
        self._num_tokens = num_tokens
        self._proposed_tokens = self._failures = 0
        self._draft_s = 0.0
        self._is_warm = False
        self._times = deque[float](maxlen=_TIMES)

    @property
    def works(self) -> bool:
        """Whether it has not failed too often."""
        return self._failures < _MOST_FAILURES

    @property
    def needs_hidden_states(self) -> bool:
        """Whether it wants `Wanted.hidden`."""
        return self.works and self._proposer.needs_hidden_states

    def propose(self, wanted: Sequence[Wanted]) -> list[Draft | None]:
        """A draft for each sequence, each of at least one token and no more than wanted; None where there is no guess."""
        started = time.perf_counter()
        try:
            found = self._proposer.propose(wanted)
            drafts = [self._usable(draft, each) for draft, each in zip(found, wanted, strict=True)]
        except Exception as error:  # noqa: BLE001 - whatever a proposer raises, requests go on without drafts
            self._note_failure(error)
            return [None] * len(wanted)
        seconds = time.perf_counter() - started
        self._draft_s += seconds
        longest = max((len(draft.tokens) for draft in drafts if draft is not None), default=0)
        if longest:
            if self._is_warm:
                self._times.append(seconds / longest)
                self.seconds_per_token = median(self._times)
            self._is_warm = True
        self._proposed_tokens += sum(len(draft.tokens) for draft in drafts if draft is not None)
        return drafts

    def note(self, *, verified: int, accepted: int) -> None:
        """Of a draft so many tokens were computed, and so many of these count."""
        self.rounds += 1
        self.verified_tokens += verified
        self.accepted_tokens += accepted
        self.fully_accepted += accepted == verified
        self.not_accepted += not accepted

    def forget(self, key: int) -> None:
        """A sequence has ended."""
        try:
            self._proposer.forget(key)
        except Exception as error:  # noqa: BLE001 - as above
            self._note_failure(error)

    def close(self) -> None:
        """Let go of everything."""
        self._proposer.close()

    def stats(self) -> MethodStats:
        """What it has done."""
        return MethodStats(
            rounds=self.rounds,
            proposed_tokens=self._proposed_tokens,
            verified_tokens=self.verified_tokens,
            accepted_tokens=self.accepted_tokens,
            fully_accepted=self.fully_accepted,
            not_accepted=self.not_accepted,
            failures=self._failures,
            draft_s=self._draft_s,
        )

    def _usable(self, draft: Draft | None, wanted: Wanted) -> Draft | None:
        """A draft without what is too long, and without what is no token.

        Raises:
            TypeError: Something of it is of another kind.
            ValueError: Its tokens and their distributions do not fit together.
        """
        if draft is None:
            return None
        tokens = tuple(index(token) for token in draft.tokens)
        if draft.distributions is not None:
            _check_distributions(draft.distributions, len(tokens))
        length = 0
        for token in tokens[: wanted.num_tokens]:
            if not 0 <= token < self._num_tokens:
                break
            length += 1
        return shortened(replace(draft, tokens=tokens), length)

    def _note_failure(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == 1:
            _log.warning("%s failed; requests go on without its drafts", self.method, exc_info=error)
        if self._failures == _MOST_FAILURES:
            _log.warning("%s failed %d times (%s) and is not asked again", self.method, self._failures, error)


def _check_distributions(distributions: Sequence[Distribution], num_tokens: int) -> None:
    if len(distributions) != num_tokens:
        raise ValueError(f"a draft of {num_tokens} tokens has {len(distributions)} distributions")
    for place, (ids, shares) in enumerate(distributions):
        if ids.ndim != 1 or ids.shape != shares.shape or ids.dtype.kind not in "iu":
            raise ValueError(
                f"distribution {place} has ids {ids.dtype} {list(ids.shape)} and probabilities {list(shares.shape)}; "
                "both have one dimension, equally long"
            )
