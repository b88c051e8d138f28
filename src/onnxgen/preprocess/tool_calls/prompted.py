"""Tools for models whose chat template has no place for them: told in the conversation's own texts.

Calls and results are written as Hermes models write them, which most models have seen::

    system     ... <tools> one definition a line </tools> ...
    assistant  <tool_call> {"name": ..., "arguments": {...}} </tool_call>
    user       <tool_response> ... </tool_response>
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from onnxgen.errors import ChatTemplateError
from onnxgen.preprocess.tool_calls.messages import definition_message
from onnxgen.preprocess.tool_calls.tools import ToolDefinition

if TYPE_CHECKING:
    from onnxgen.preprocess.chat_template import ChatTemplate

PROMPTED_FORMAT = "hermes"
"""Name of the format that the texts ask for."""

_PROBE = "k7q_tool"

_INTRODUCTION = """\
You may call tools. Each line between <tools> and </tools> describes one of them, its parameters as a JSON Schema:
<tools>
{tools}
</tools>
To call a tool, write its name and its arguments as JSON like this, once for every call, and nothing after it:
<tool_call>
{{"name": "the tool's name", "arguments": {{"a parameter": "its value"}}}}
</tool_call>
What a tool gives comes between <tool_response> and </tool_response>."""


def shows_tools(template: ChatTemplate) -> bool:
    """Whether a template writes definitions of tools into prompts; found by rendering one."""
    tool = {
        "type": "function",
        "function": {
            "name": _PROBE,
            "description": "d",
            "parameters": {"type": "object", "properties": {}},
        },
    }
    try:
        return _PROBE in template.render([{"role": "user", "content": "q"}], tools=[tool])
    except ChatTemplateError:
        return False


def with_tools(
    messages: Iterable[Mapping[str, Any]], tools: Sequence[ToolDefinition]
) -> list[Mapping[str, Any]]:
    """A conversation that tells of tools, their calls and results in messages of system, assistant and user."""
    texts = "\n".join(json.dumps(definition_message(tool), ensure_ascii=False) for tool in tools)
    told = _INTRODUCTION.format(tools=texts)
    result: list[Mapping[str, Any]] = []
    for message in messages:
        role = message.get("role")
        if role == "system" and not result:
            result.append({**message, "content": f"{_text(message)}\n\n{told}"})
        elif role == "tool":
            _append_result(result, f"<tool_response>\n{_text(message)}\n</tool_response>")
        elif role == "assistant" and message.get("tool_calls"):
            result.append(_with_calls(message))
        else:
            result.append(message)
    if not result or result[0].get("role") != "system":
        result.insert(0, {"role": "system", "content": told})
    return result


def _append_result(messages: list[Mapping[str, Any]], text: str) -> None:
    """Results of calls that were made together are one message."""
    last = messages[-1] if messages else {}
    if last.get("role") == "user" and str(last.get("content", "")).startswith("<tool_response>"):
        messages[-1] = {**last, "content": f"{last['content']}\n{text}"}
    else:
        messages.append({"role": "user", "content": text})


def _with_calls(message: Mapping[str, Any]) -> Mapping[str, Any]:
    calls = cast("Sequence[Mapping[str, Any]]", message["tool_calls"])
    texts = [f"<tool_call>\n{_call(call)}\n</tool_call>" for call in calls]
    content = _text(message)
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "\n".join([content, *texts] if content else texts)}


def _call(call: Mapping[str, Any]) -> str:
    function = cast("Mapping[str, Any]", call.get("function") or call)
    arguments: Any = function.get("arguments") or {}
    if isinstance(arguments, str):
        return f'{{"name": {json.dumps(function.get("name"), ensure_ascii=False)}, "arguments": {arguments}}}'
    return json.dumps({"name": function.get("name"), "arguments": arguments}, ensure_ascii=False)


def _text(message: Mapping[str, Any]) -> str:
    content: Any = message.get("content")
    if isinstance(content, list):
        parts = cast("list[Mapping[str, Any]]", content)
        return "".join(str(part.get("text", "")) for part in parts)
    return str(content or "")
