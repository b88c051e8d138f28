"""Leaves the last message of a rendered conversation open, so that a model continues it."""

from __future__ import annotations

from typing import Any

from onnxgen.errors import ChatTemplateError

_CONTINUE_MARK = "\u2042continue-here\u2042 "  # the space shows whether the template trims the end


def mark_end(messages: list[dict[str, Any]]) -> str:
    """Put a mark at the end of the last message.

    Returns:
        The text of the message.

    Raises:
        ChatTemplateError: It has none.
    """
    if not messages:
        raise ChatTemplateError("continue_final_message: there is no message to continue")
    message = messages[-1]
    content = message.get("content")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
        if parts:
            text = parts[-1]["text"]
            parts[-1]["text"] = text + _CONTINUE_MARK
            return text
    elif isinstance(content, str):
        message["content"] = content + _CONTINUE_MARK
        return content
    raise ChatTemplateError("continue_final_message: the last message has no text to continue")


def cut_at_mark(text: str, final: str, source: str) -> str:
    """Cut a rendered conversation at the mark.

    Args:
        text: What was rendered.
        final: As `mark_end` gave it.
        source: The template, for messages.

    Raises:
        ChatTemplateError: The mark or the message is not there.
    """
    place = text.rfind(_CONTINUE_MARK.rstrip())
    if place < 0 or final.strip() not in text:
        raise ChatTemplateError(
            f"{source}: the template does not render the last message as it is, so it can't be continued"
        )
    whole = text[place : place + len(_CONTINUE_MARK)] == _CONTINUE_MARK
    return text[:place] if whole else text[:place].rstrip()
