"""Messages of Anthropic's API as messages of a conversation.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from onnxgen.server.errors import ApiError
from onnxgen.server.formats.fields import list_at, mapping_at, text_at
from onnxgen.server.media import MediaCheck

ChatMessage = dict[str, Any]


def system_text(given: object) -> str | None:
    """The system prompt, which is a text or blocks of text; None: there is none.

    Raises:
        ApiError: It is something else.
    """
    if given is None or isinstance(given, str):
        return given or None
    texts: list[str] = []
    for index, entry in enumerate(list_at("system", given, of="text blocks, or a text")):
        place = f"system[{index}]"
        block = mapping_at(place, entry)
        if block.get("type") != "text":
            raise _unknown(place, block, "text")
        texts.append(text_at(f"{place}.text", block.get("text")))
    return "\n\n".join(text for text in texts if text) or None


def chat_messages(given: Sequence[Any], media: MediaCheck) -> list[ChatMessage]:
    """The conversation without its system prompt, as chat completions has it.

    Results of tools, which come in the user's messages, become messages of their own.

    Args:
        given: The messages of the request.
        media: Judges images for the model that is asked.

    Raises:
        ApiError: A message or a block is none of the API's, or a result belongs to no use of a tool.
    """
    messages: list[ChatMessage] = []
    name_by_use: dict[str, str] = {}
    for index, entry in enumerate(given):
        place = f"messages[{index}]"
        message = mapping_at(place, entry)
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant", "system"):
            raise ApiError(
                400,
                f"{place}.role is {role!r:.60}; the roles are user, assistant and system",
                param=f"{place}.role",
            )
        blocks = _blocks(content, f"{place}.content")
        if role == "assistant":
            messages.append(_assistant(blocks, f"{place}.content", name_by_use))
        else:
            messages += _asked(blocks, role, name_by_use, media)
    return messages


def chat_tools(given: Sequence[Any]) -> list[dict[str, Any]]:
    """Definitions of tools as chat completions has them.

    Raises:
        ApiError: One is run by a server: this one runs none.
    """
    tools: list[dict[str, Any]] = []
    for index, entry in enumerate(given):
        place = f"tools[{index}]"
        tool = mapping_at(place, entry)
        if tool.get("type") not in (None, "custom"):
            raise ApiError(
                400,
                f"{place}.type is {tool.get('type')!r:.60}; this server runs no tools of its own and knows those with an "
                "input_schema only, which the client runs",
                param=f"{place}.type",
            )
        function: dict[str, Any] = {
            "name": text_at(f"{place}.name", tool.get("name"), empty=False),
            "parameters": mapping_at(f"{place}.input_schema", tool.get("input_schema")),
        }
        function |= {name: tool[name] for name in ("description", "strict") if tool.get(name) is not None}
        tools.append({"type": "function", "function": function})
    return tools


def chat_tool_choice(choice: Mapping[str, Any] | None) -> tuple[Any, bool]:
    """Which tools may or must be used, and whether several at once.

    Raises:
        ApiError: It is no choice of the API.
    """
    if choice is None:
        return "auto", True
    parallel = not choice.get("disable_parallel_tool_use")
    match choice.get("type"):
        case "auto" | "none" as kind:
            return kind, parallel
        case "any":
            return "required", parallel
        case "tool":
            name = text_at("tool_choice.name", choice.get("name"), empty=False)
            return {"type": "function", "function": {"name": name}}, parallel
        case kind:
            raise ApiError(
                400,
                f"tool_choice.type is {kind!r:.60}, expected auto, any, tool or none",
                param="tool_choice.type",
            )


def _blocks(content: object, place: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Blocks, each with its place."""
    if isinstance(content, str):
        return [(place, {"type": "text", "text": content})]
    entries = list_at(place, content, of="blocks, or a text")
    return [(here := f"{place}[{n}]", mapping_at(here, entry)) for n, entry in enumerate(entries)]


def _assistant(
    blocks: Sequence[tuple[str, Mapping[str, Any]]], place: str, name_by_use: dict[str, str]
) -> ChatMessage:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for here, block in blocks:
        match block.get("type"):
            case "text":
                texts.append(text_at(f"{here}.text", block.get("text")))
            case "thinking":
                thoughts.append(text_at(f"{here}.thinking", block.get("thinking")))
            case "redacted_thinking":  # only its maker could read it
                pass
            case "tool_use":
                call_id = text_at(f"{here}.id", block.get("id"), empty=False)
                name = text_at(f"{here}.name", block.get("name"), empty=False)
                given = mapping_at(f"{here}.input", block.get("input"))
                name_by_use[call_id] = name
                function = {"name": name, "arguments": json.dumps(given, ensure_ascii=False)}
                calls.append({"id": call_id, "type": "function", "function": function})
            case _:
                raise _unknown(here, block, "text, thinking, redacted_thinking and tool_use of the assistant")
    message: ChatMessage = {"role": "assistant", "content": "".join(texts)}
    if thought := "\n\n".join(filter(None, thoughts)):
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    return message


def _asked(
    blocks: Sequence[tuple[str, Mapping[str, Any]]],
    role: str,
    name_by_use: Mapping[str, str],
    media: MediaCheck,
) -> list[ChatMessage]:
    """A message of the user (or the system): results of tools become messages of their own, in their order."""
    messages: list[ChatMessage] = []
    parts: list[dict[str, Any]] = []

    def end_of_text() -> None:
        if parts:
            messages.append({"role": role, "content": _content(parts)})
            parts.clear()

    for here, block in blocks:
        if block.get("type") == "tool_result" and role == "user":
            end_of_text()
            messages.append(_result(block, here, name_by_use, media))
        else:
            parts.append(_part(block, here, media))
    end_of_text()
    return messages or [{"role": role, "content": ""}]


def _result(
    block: Mapping[str, Any], place: str, name_by_use: Mapping[str, str], media: MediaCheck
) -> ChatMessage:
    use_id = text_at(f"{place}.tool_use_id", block.get("tool_use_id"), empty=False)
    if use_id not in name_by_use:
        raise ApiError(
            400,
            f"{place}.tool_use_id is {use_id!r:.80}, and no tool_use before it has that id",
            param=f"{place}.tool_use_id",
        )
    content = block.get("content")
    inner = [] if content is None else _blocks(content, f"{place}.content")
    said = _content([_part(each, here, media) for here, each in inner])
    if block.get("is_error") and isinstance(said, str):
        said = f"Error: {said}"  # conversations of models have no other place for it
    return {"role": "tool", "tool_call_id": use_id, "name": name_by_use[use_id], "content": said}


def _part(block: Mapping[str, Any], place: str, media: MediaCheck) -> dict[str, Any]:
    match block.get("type"):
        case "text":
            return {"type": "text", "text": text_at(f"{place}.text", block.get("text"))}
        case "image":
            url = _checked_image(mapping_at(f"{place}.source", block.get("source")), place, media)
            return {"type": "image_url", "image_url": {"url": url, "detail": "auto"}}
        case "document" | "search_result" as kind:
            return {"type": "text", "text": _document(kind, block, place)}
        case _:
            raise _unknown(place, block, "text, image, document, search_result and tool_result of the user")


def _document(kind: str, block: Mapping[str, Any], place: str) -> str:
    """The text of a document, under its title."""
    if kind == "search_result":
        at, content = f"{place}.content", block.get("content")
    else:
        source = mapping_at(f"{place}.source", block.get("source"))
        match source.get("type"):
            case "text":
                at, content = f"{place}.source.data", source.get("data")
            case "content":
                at, content = f"{place}.source.content", source.get("content")
            case other:
                raise ApiError(
                    400,
                    f"{place}.source.type is {other!r:.60}; this server reads documents of type text and content, and no "
                    "files",
                    param=f"{place}.source.type",
                )
    texts: list[str] = []
    for here, each in _blocks(content, at):
        if each.get("type") != "text":
            raise _unknown(here, each, "documents of text only")
        texts.append(text_at(f"{here}.text", each.get("text")))
    title = block.get("title")
    head = [] if title is None else [text_at(f"{place}.title", title)]
    return "\n\n".join([*head, *texts])


def _checked_image(source: Mapping[str, Any], part: str, media: MediaCheck) -> str:
    """The address of an image, or a data URI of it, which may be read."""
    place = f"{part}.source"
    match source.get("type"):
        case "url":
            url = text_at(f"{place}.url", source.get("url"), empty=False)
            media.source(url, kind="image", place=f"{place}.url", part=part)
            return url
        case "base64":
            kind = text_at(f"{place}.media_type", source.get("media_type"), empty=False)
            data = text_at(f"{place}.data", source.get("data"))
            media.base64(data, kind="image", declared=kind.strip().lower(), place=f"{place}.data", part=part)
            return f"data:{kind};base64,{data}"
        case kind:
            raise ApiError(
                400, f"{place}.type is {kind!r:.60}, expected base64 or url", param=f"{place}.type"
            )


def _content(parts: Sequence[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """A text if all parts are text: blocks stand apart there, as an empty line does it."""
    if all(part["type"] == "text" for part in parts):
        return "\n\n".join(part["text"] for part in parts)
    return list(parts)


def _unknown(place: str, block: Mapping[str, Any], known: str) -> ApiError:
    return ApiError(
        400,
        f"{place}.type is {block.get('type')!r:.60}; this server reads {known}",
        param=f"{place}.type",
    )
