"""`MessageStyle`: what a chat template wants, found out by rendering probes.

Requests come from many clients and templates disagree about details: whether the content of a message
that only calls tools may be null, whether the arguments of a call are a mapping or JSON text, whether
there is a system role at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnxgen.errors import ChatTemplateError

Render = Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], str]
"""Renders messages and tools with one template; raises `ChatTemplateError`."""

SHORT_ID_LENGTH = 9
"""Characters of a tool call's id in the templates that count them."""


@dataclass(frozen=True, slots=True)
class MessageStyle:
    """What a template wants.

    Attributes:
        arguments_as_text: Arguments of tool calls as JSON text instead of a mapping.
        missing_content: Content of an assistant message that only calls tools: None or an empty text.
        takes_parts: Content may be a list of parts.
        takes_text: Content may be a text; if not, a text has to be a list of one part.
        short_ids: Ids of tool calls must have nine letters and digits.
        has_system_role: A system message is shown.
        generation_header: What begins an assistant's turn, for a template that never writes it by itself.
    """

    arguments_as_text: bool = False
    missing_content: str | None = ""
    takes_parts: bool = True
    takes_text: bool = True
    short_ids: bool = False
    has_system_role: bool = True
    generation_header: str = ""


def probe_style(render: Render, *, writes_header: bool) -> MessageStyle:
    """Find out what a template wants.

    Args:
        render: Renders with it.
        writes_header: The template knows ``add_generation_prompt``.
    """

    def attempt(*messages: Mapping[str, Any], tools: Sequence[Mapping[str, Any]] = ()) -> str | None:
        try:
            return render(messages, tools)
        except ChatTemplateError:
            return None

    def attempt_call(arguments: Any, content: str | None, call_id: str = _SHORT_ID) -> str | None:
        function = {"name": "f5n", "arguments": arguments}
        call = {"id": call_id, "type": "function", "function": function}
        return attempt(
            _QUESTION, {"role": "assistant", "content": content, "tool_calls": [call]}, tools=_TOOLS
        )

    mapping, text = attempt_call({"k7q": "v9x"}, ""), attempt_call('{"k7q": "v9x"}', "")
    as_text = text is not None and (mapping is None or "'k7q'" in mapping)
    arguments = '{"k7q": "v9x"}' if as_text else {"k7q": "v9x"}
    with_none = attempt_call(arguments, None)
    called = text if as_text else mapping
    short_ids = called is not None and any(
        attempt_call(arguments, "", call_id) is None for call_id in _OTHER_IDS
    )

    plain = attempt(_QUESTION)
    parts = attempt({"role": "user", "content": [{"type": "text", "text": _WORD}]})
    shows_text, shows_parts = (shown is not None and _WORD in shown for shown in (plain, parts))
    # Some templates write a part as it is, some leave out whatever is no text.
    takes_parts = parts is not None and "'type'" not in parts and (shows_parts or not shows_text)
    system = attempt({"role": "system", "content": "s3m"}, _QUESTION)
    return MessageStyle(
        arguments_as_text=as_text,
        missing_content=None if with_none is not None and "None" not in with_none else "",
        takes_parts=takes_parts,
        takes_text=shows_text or not (takes_parts and shows_parts),
        short_ids=short_ids,
        has_system_role=not shows_text or (system is not None and "s3m" in system),
        generation_header="" if writes_header else _header(plain, attempt(_QUESTION, _ANSWER)),
    )


def _header(question: str | None, conversation: str | None) -> str:
    if question is None or conversation is None or not conversation.startswith(question):
        return ""
    header, found, _ = conversation[len(question) :].partition(_ANSWER["content"])
    return header if found and header.strip() else ""  # a blank alone is the answer's


_WORD = "k7q"
_QUESTION = {"role": "user", "content": _WORD}
_ANSWER = {"role": "assistant", "content": "v9x"}
_SHORT_ID = "callid001"
_OTHER_IDS = ("c1", "call_0123456789abcdef")
_TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "f5n",
            "description": "A probe.",
            "parameters": {
                "type": "object",
                "properties": {"k7q": {"type": "string", "description": "A key."}},
            },
        },
    },
)
