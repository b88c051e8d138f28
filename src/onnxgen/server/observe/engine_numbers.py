"""`EngineNumbers`: what an engine has counted at one moment; `EngineRates`: what it did between two."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.engine.stats import EngineStats


@dataclass(frozen=True, slots=True)
class EngineNumbers:
    """What an engine has counted at one moment.

    Attributes:
        at_s: When, on the observer's clock.
        stats: What it says.
    """

    at_s: float
    stats: EngineStats

    @property
    def kv_usage(self) -> float:
        """The share of blocks that sequences hold, of the group that has fewest left; 0 to 1."""
        groups = self.stats.cache.groups
        return max((group.in_use / group.total if group.total else 0.0) for group in groups)

    @property
    def prefix_hit_rate(self) -> float | None:
        """The share of prompt tokens that needed no computing since the engine was made; None: there were none."""
        cache = self.stats.cache
        return cache.hit_tokens / cache.queried_tokens if cache.queried_tokens else None


@dataclass(frozen=True, slots=True)
class EngineRates:
    """What an engine did between two moments. None is what there was nothing of.

    Attributes:
        steps: Steps.
        prompt_tok_s: Tokens of prompts that were computed, a second.
        answer_tok_s: Tokens that were chosen, a second.
        prefix_hit_rate: The share of tokens of prompts that needed no computing.
        preemptions: How often a sequence gave way.
        accepted_rate: The share of guessed tokens that count, of those that were computed.
    """

    steps: int
    prompt_tok_s: float
    answer_tok_s: float
    prefix_hit_rate: float | None
    preemptions: int
    accepted_rate: float | None


def rates_between(before: EngineNumbers, after: EngineNumbers) -> EngineRates | None:
    """What happened between two moments; None where another engine took the first one's place, or no time passed."""
    old, new, seconds = before.stats, after.stats, after.at_s - before.at_s
    if seconds <= 0 or new.steps < old.steps or new.submitted < old.submitted:
        return None
    queried = new.cache.queried_tokens - old.cache.queried_tokens
    guessed, was_guessed = new.speculation.total, old.speculation.total
    verified = guessed.verified_tokens - was_guessed.verified_tokens
    return EngineRates(
        steps=new.steps - old.steps,
        prompt_tok_s=(new.prefill_tokens - old.prefill_tokens) / seconds,
        answer_tok_s=(new.generated_tokens - old.generated_tokens) / seconds,
        prefix_hit_rate=(new.cache.hit_tokens - old.cache.hit_tokens) / queried if queried > 0 else None,
        preemptions=new.preemptions - old.preemptions,
        accepted_rate=(guessed.accepted_tokens - was_guessed.accepted_tokens) / verified
        if verified > 0
        else None,
    )
