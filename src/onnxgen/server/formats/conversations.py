"""Conversations as other APIs bring them: a system text in front, and oldest turns left out where they may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

ChatMessage = dict[str, Any]

_SYSTEM = ("system", "developer")


def with_system(text: str | None, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Messages with a system text in front, in one with the system message that is there: few templates take two."""
    if not text:
        return list(messages)
    if messages and messages[0]["role"] in _SYSTEM and isinstance(messages[0]["content"], str):
        first = {"role": "system", "content": f"{text}\n\n{messages[0]['content']}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def shortened(
    messages: Sequence[ChatMessage], *, fits: Callable[[list[ChatMessage]], bool]
) -> list[ChatMessage]:
    """Messages without as many of the oldest turns as it takes for them to fit.

    A turn begins with a message of the user; system messages in front and the last turn always stay.

    Args:
        messages: A conversation.
        fits: Whether one fits; a longer one never does if a shorter one does not. May be costly.
    """
    head = next((n for n, message in enumerate(messages) if message["role"] not in _SYSTEM), len(messages))
    starts = [n for n in range(head + 1, len(messages)) if messages[n]["role"] == "user"]
    candidates = [list(messages), *([*messages[:head], *messages[start:]] for start in starts)]
    low, high = 0, len(candidates) - 1  # the last one is taken whether it fits or not
    while low < high:
        middle = (low + high) // 2
        if fits(candidates[middle]):
            high = middle
        else:
            low = middle + 1
    return candidates[low]
