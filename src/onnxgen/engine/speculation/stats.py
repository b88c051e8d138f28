"""What is counted of drafts: `SpeculationStats` of an engine, `MethodStats` of one method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MethodStats:
    """Drafts of one method.

    Attributes:
        rounds: Drafts that were computed, a part of one counts as one.
        proposed_tokens: Tokens that were guessed.
        verified_tokens: Of these, those that were computed.
        accepted_tokens: Of these, those that count.
        fully_accepted: Drafts all computed tokens of which count.
        not_accepted: Drafts none of whose tokens count.
        failures: How often guessing failed.
        draft_s: Seconds spent guessing.
    """

    rounds: int = 0
    proposed_tokens: int = 0
    verified_tokens: int = 0
    accepted_tokens: int = 0
    fully_accepted: int = 0
    not_accepted: int = 0
    failures: int = 0
    draft_s: float = 0.0

    @property
    def acceptance_rate(self) -> float | None:
        """The share of computed tokens that count; None: none was computed."""
        return self.accepted_tokens / self.verified_tokens if self.verified_tokens else None

    @property
    def mean_length(self) -> float | None:
        """Tokens of a draft that were computed; None: none was."""
        return self.verified_tokens / self.rounds if self.rounds else None


@dataclass(frozen=True, slots=True)
class SpeculationStats:
    """Drafts of an engine.

    Attributes:
        by_method: For every method that there is.
        verify_s: Seconds in the backend of steps that computed drafts.
        verify_steps: How many these were.
        switched_off: How often drafts of a sequence were found not to pay, and left out from then on.
        switched_on: How often that was taken back.
    """

    by_method: Mapping[str, MethodStats] = field(default_factory=dict[str, MethodStats])
    verify_s: float = 0.0
    verify_steps: int = 0
    switched_off: int = 0
    switched_on: int = 0

    @property
    def total(self) -> MethodStats:
        """All methods together."""
        each = self.by_method.values()
        return MethodStats(
            rounds=sum(one.rounds for one in each),
            proposed_tokens=sum(one.proposed_tokens for one in each),
            verified_tokens=sum(one.verified_tokens for one in each),
            accepted_tokens=sum(one.accepted_tokens for one in each),
            fully_accepted=sum(one.fully_accepted for one in each),
            not_accepted=sum(one.not_accepted for one in each),
            failures=sum(one.failures for one in each),
            draft_s=sum(one.draft_s for one in each),
        )


NOTHING_GUESSED = SpeculationStats()
"""Of an engine that guesses nothing."""
