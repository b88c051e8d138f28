"""A conversation and the messages that a request brings: one goes on with the other, or stands in its place."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

Message = Mapping[str, Any]

_INSTRUCTIONS = ("system", "developer")


def joined(kept: Sequence[Message], sent: Sequence[Message]) -> list[Message]:
    """The conversation that a request means.

    What is sent goes on with what is kept. A client that always sends everything means the same: what begins with the
    whole of what is kept stands in its place, and so does what has its beginning up to an answer (a turn that was
    edited or taken back, an answer that was stopped). Instructions at the beginning replace those that are kept.

    Args:
        kept: The conversation so far.
        sent: The messages of the request.
    """
    kept_instructions, kept_turns = _split(kept)
    sent_instructions, sent_turns = _split(sent)
    instructions = sent_instructions or kept_instructions
    if _is_whole(kept_turns, sent_turns):
        return [*instructions, *sent_turns]
    return [*instructions, *kept_turns, *sent_turns]


def _split(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """Instructions at the beginning, and the rest."""
    turns = next((i for i, m in enumerate(messages) if m.get("role") not in _INSTRUCTIONS), len(messages))
    return messages[:turns], messages[turns:]


def _is_whole(kept: Sequence[Message], sent: Sequence[Message]) -> bool:
    """Whether what is sent is a whole conversation, and not what comes next in the one that is kept."""
    if len(sent) > len(kept) > 0 and all(map(_same, kept, sent)):
        return True
    answer = next((i for i, message in enumerate(sent) if message.get("role") == "assistant"), 0)
    if not 0 < answer < len(kept) or kept[answer].get("role") != "assistant":
        return False
    return all(map(_same, kept[:answer], sent[:answer]))


def _same(one: Message, other: Message) -> bool:
    """Whether two messages say the same; clients seldom send reasoning back, and drop or add empty fields."""
    return _essence(one) == _essence(other)


def _essence(message: Message) -> tuple[object, ...]:
    content = message.get("content")
    calls = cast("Sequence[Mapping[str, Any]]", message.get("tool_calls") or ())
    return (
        message.get("role"),
        _plain(content),
        message.get("tool_call_id"),
        tuple(_call(call) for call in calls),
    )


def _plain(content: object) -> object:
    """Content in one form: texts in parts are one text, nothing is the empty text."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return content
    parts = cast("list[object]", content)
    texts = [_text_of(part) for part in parts]
    if any(text is None for text in texts):
        return json.dumps(parts, sort_keys=True, default=str)
    return "".join(cast("list[str]", texts))


def _text_of(part: object) -> str | None:
    fields = cast("dict[str, object]", part) if isinstance(part, dict) else {}
    text = fields.get("text")
    return text if fields.get("type") == "text" and isinstance(text, str) else None


def _call(call: Mapping[str, Any]) -> tuple[object, object, object]:
    function = cast("Mapping[str, Any]", call.get("function") or {})
    return call.get("id"), function.get("name"), function.get("arguments")
