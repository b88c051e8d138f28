"""`EndedRequest`: what is known of a request once it has ended, for metrics, log lines and traces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["ok", "cancelled", "error", "timeout", "rejected"]
"""How a request ended: answered; its client left; it failed; it took too long; it was refused."""


@dataclass(frozen=True, slots=True)
class EndedRequest:
    """A request that has ended. It has no text of prompts or answers, and no key.

    Attributes:
        request_id: As in the header ``X-Request-Id`` of its answer.
        endpoint: Such as ``chat.completions``.
        model: The served id.
        stream: Whether its answer came in pieces.
        tenant: Name of the key that asked; empty without keys.
        outcome: How it ended.
        status: The HTTP status.
        began_s: When it began, on the observer's clock.
        queued_s: From the engine's acceptance to its first step, in seconds; None: not known.
        first_s: When the first token came, on the observer's clock; None: none came.
        ended_s: When it ended, on the observer's clock.
        prompt_tokens: Tokens of its prompts; None: not known.
        cached_tokens: Of these, those that needed no computing.
        completion_tokens: Tokens of its answers, as far as they came.
        finish_reasons: Why its answers ended, by index; those that were cut are not there.
        error: Kind of the error that ended it.
    """

    request_id: str
    endpoint: str
    model: str
    stream: bool
    tenant: str
    outcome: Outcome
    status: int
    began_s: float
    queued_s: float | None
    first_s: float | None
    ended_s: float
    prompt_tokens: int | None
    cached_tokens: int
    completion_tokens: int
    finish_reasons: tuple[str, ...]
    error: str | None

    @property
    def total_s(self) -> float:
        """How long it took, in seconds."""
        return self.ended_s - self.began_s

    @property
    def ttft_s(self) -> float | None:
        """From its beginning to its first token, in seconds."""
        return None if self.first_s is None else self.first_s - self.began_s

    @property
    def tokens_s(self) -> float | None:
        """Tokens a second after the first one, all answers together; None: there are not enough to tell."""
        if self.first_s is None or self.completion_tokens < 2 or self.ended_s <= self.first_s:
            return None
        return (self.completion_tokens - 1) / (self.ended_s - self.first_s)
