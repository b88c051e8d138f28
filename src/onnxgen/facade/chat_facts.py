"""`ChatFacts`: what a chat template was found to do, for people who run a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChatFacts:
    """What a chat template was found to do.

    Attributes:
        template: Where it is.
        shows_tools: It writes definitions of tools into prompts.
        tool_call_format: How calls of tools are written; None: it does not show.
        reasoning: What stands around reasoning, such as ``<think>…</think>``; None: it marks none.
    """

    template: str
    shows_tools: bool
    tool_call_format: str | None
    reasoning: str | None
