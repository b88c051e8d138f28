"""Tools for models whose chat template has no place for them: told in the conversation's own texts.

Calls and results are written as Hermes models write them, which most models have seen::

    system     ... <tools> one definition a line </tools> ...
    assistant  <tool_call> {"name": ..., "arguments": {...}} </tool_call>
    user       <tool_response> ... </tool_response>
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from onnxgen.errors import ChatTemplateError
from onnxgen.preprocess.template_messages import plain_messages
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
    """A conversation that tells of tools, their calls and results in messages of system, assistant and user.

    Raises:
        ChatTemplateError: A message is not a mapping or has no role, or its calls are no list of mappings.
    """
    texts = "\n".join(json.dumps(definition_message(tool), ensure_ascii=False) for tool in tools)
    told = _INTRODUCTION.format(tools=texts)
    given: list[dict[str, Any]] = plain_messages(messages)
    if given and given[0]["role"] == "system":
        instructions = _text(given[0])
        first = {**given.pop(0), "content": f"{instructions}\n\n{told}" if instructions else told}
    else:
        first = {"role": "system", "content": told}
    result: list[Mapping[str, Any]] = [first]
    # results of calls that were made together are one message
    for is_result, together in itertools.groupby(given, key=lambda message: message["role"] == "tool"):
        if is_result:
            given_back = (f"<tool_response>\n{_text(each)}\n</tool_response>" for each in together)
            result.append({"role": "user", "content": "\n".join(given_back)})
        else:
            result += [_with_calls(each) if each.get("tool_calls") else each for each in together]
    return result


def _with_calls(message: Mapping[str, Any]) -> Mapping[str, Any]:
    calls: Any = message["tool_calls"]
    if not isinstance(calls, (list, tuple)) or not all(
        isinstance(call, Mapping) for call in cast("list[Any]", calls)
    ):
        raise ChatTemplateError(f"the tool_calls of a message must be a list of objects, got {calls!r:.80}")
    calls = cast("Sequence[Mapping[str, Any]]", calls)
    texts = [f"<tool_call>\n{_call(call)}\n</tool_call>" for call in calls]
    content = _text(message)
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "\n".join([content, *texts] if content else texts)}


def _call(call: Mapping[str, Any]) -> str:
    function = cast("Mapping[str, Any]", call.get("function") or call)
    arguments: Any = function.get("arguments")
    if isinstance(arguments, str):
        name = json.dumps(function.get("name"), ensure_ascii=False)
        return f'{{"name": {name}, "arguments": {arguments.strip() or "{}"}}}'
    return json.dumps({"name": function.get("name"), "arguments": arguments or {}}, ensure_ascii=False)


def _text(message: Mapping[str, Any]) -> str:
    """The text of a message; data, as tools give it, is JSON."""
    content: Any = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(_is_text(part) for part in cast("list[Any]", content)):
        return "".join(part["text"] for part in cast("list[dict[str, str]]", content))
    return json.dumps(content, ensure_ascii=False)


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(cast("dict[str, Any]", part).get("text"), str)
