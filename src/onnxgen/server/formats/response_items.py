"""Items of the Responses API, read, and as the messages of a conversation.

Source: https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnxgen.foundations.suggest import did_you_mean
from onnxgen.server.errors import ApiError
from onnxgen.server.formats.fields import list_at, mapping_at, text_at
from onnxgen.server.media import MediaCheck, check_media_part, is_media

Item = dict[str, Any]

ROLES = ("user", "assistant", "system", "developer")
_TEXT_PARTS = ("input_text", "output_text", "text")
_ID_PREFIX = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
}


def read_items(
    given: object, *, new_id: Callable[[str], str], stored: Callable[[str], Item | None]
) -> list[Item]:
    """The items of a request, each with an id.

    Args:
        given: A text, or a list of items.
        new_id: Makes the id of an item from its prefix.
        stored: Finds an item that the server keeps by its id, for references.

    Raises:
        ApiError: One is none, naming its place.
    """
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    items: list[Item] = []
    for index, entry in enumerate(list_at("input", given, of="items, or a text")):
        place = f"input[{index}]"
        item = mapping_at(place, entry)
        kind = item.get("type") or "message"
        if kind == "item_reference":
            items.append(_referred(item, place, stored))
        elif isinstance(kind, str) and kind in _ID_PREFIX:
            item_id = text_at(f"{place}.id", item.get("id") or new_id(_ID_PREFIX[kind]))
            items.append(_READERS[kind](item, place, item_id))
        else:
            raise ApiError(
                400,
                f"{place}.type is {kind!r:.60}{did_you_mean(str(kind)[:60], _ID_PREFIX)}; this server reads "
                f"{', '.join(_ID_PREFIX)} and item_reference",
                param=f"{place}.type",
            )
    return items


def check_media(items: Sequence[Item], media: MediaCheck) -> None:
    """Judge the images and sounds of a request's items.

    Args:
        items: From `read_items`.
        media: Judges them for the model that is asked.

    Raises:
        ApiError: 400, naming what is wrong with one; or the model has no sense for it.
    """
    for index, item in enumerate(items):
        for name in ("content", "output"):
            content = item.get(name)
            for n, part in enumerate(content if isinstance(content, list) else ()):
                if is_media(part["type"]):
                    check_media_part(part, f"input[{index}].{name}[{n}]", media)


def chat_messages(items: Sequence[Item]) -> list[dict[str, Any]]:
    """Items as messages of a conversation: what follows each other and is the assistant's, is one message of its.

    Raises:
        ApiError: A result belongs to no call.
    """
    messages: list[dict[str, Any]] = []
    name_by_call: dict[str, str] = {}
    turn: dict[str, Any] | None = None
    for item in items:
        kind = item["type"]
        if kind == "function_call_output":
            turn = None
            call_id = item["call_id"]
            if call_id not in name_by_call:
                raise ApiError(
                    400,
                    f"there is no function_call with the call_id {call_id!r:.80} before its function_call_output; send "
                    "the call along, or previous_response_id of the response that made it",
                    param="input",
                )
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": call_id,
                    "name": name_by_call[call_id],
                    "content": _content(item["output"]),
                }
            )
            continue
        if kind == "message" and item["role"] != "assistant":
            turn = None
            messages.append({"role": item["role"], "content": _content(item["content"])})
            continue
        if kind == "reasoning" and not _thought(item):
            continue  # only its maker could read it
        if turn is None or not _goes_on(turn, kind):
            turn = {"role": "assistant", "content": ""}
            messages.append(turn)
        if kind == "reasoning":
            turn["reasoning_content"] = _thought(item)
        elif kind == "message":
            turn["content"] = _text(item["content"])
        else:
            name_by_call[item["call_id"]] = item["name"]
            function = {"name": item["name"], "arguments": item["arguments"]}
            call = {"id": item["call_id"], "type": "function", "function": function}
            turn.setdefault("tool_calls", []).append(call)
    return messages


def _goes_on(turn: Mapping[str, Any], kind: str) -> bool:
    """Whether a message of the assistant still takes an item: first reasoning, then text, then calls."""
    if kind == "function_call":
        return True
    if "tool_calls" in turn or turn["content"]:
        return False
    return kind == "message" or "reasoning_content" not in turn


def _thought(item: Item) -> str:
    parts = item["content"] or item["summary"]
    return "\n\n".join(part["text"] for part in parts)


def _text(content: str | list[Item]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _content(content: str | list[Item]) -> str | list[dict[str, Any]]:
    """Content as chat completions has it: a text, or parts if there is something else."""
    if isinstance(content, str) or all(part["type"] in _TEXT_PARTS for part in content):
        return _text(content)
    return [_chat_part(part) for part in content]


def _chat_part(part: Item) -> dict[str, Any]:
    match part["type"]:
        case "input_image":
            return {
                "type": "image_url",
                "image_url": {"url": part["image_url"], "detail": part.get("detail") or "auto"},
            }
        case "input_audio":
            return {"type": "input_audio", "input_audio": part["input_audio"]}
        case _:
            return {"type": "text", "text": part["text"]}


def _referred(item: Mapping[str, Any], place: str, stored: Callable[[str], Item | None]) -> Item:
    item_id = text_at(f"{place}.id", item.get("id"))
    found = stored(item_id)
    if found is None:
        raise ApiError(
            404,
            f"{place} refers to the item {item_id!r:.80}, which is not kept here (any more); send the item itself",
            code="item_not_found",
            param=f"{place}.id",
        )
    return found


def _read_message(item: Mapping[str, Any], place: str, item_id: str) -> Item:
    role = item.get("role")
    if role not in ROLES:
        raise ApiError(
            400,
            f"{place}.role is {role!r:.60}{did_you_mean(str(role)[:60], ROLES)}; the roles are {', '.join(ROLES)}",
            param=f"{place}.role",
        )
    content = _read_content(item.get("content"), f"{place}.content", spoken=role == "assistant")
    return {"type": "message", "id": item_id, "status": "completed", "role": role, "content": content}


def _read_content(content: object, place: str, *, spoken: bool) -> list[Item]:
    """The parts of a message; ``spoken`` by the assistant, they are text."""
    if content is None or isinstance(content, str):
        return [_spoken(content or "") if spoken else {"type": "input_text", "text": content or ""}]
    parts: list[Item] = []
    for index, entry in enumerate(list_at(place, content, of="parts, or a text")):
        here = f"{place}[{index}]"
        part = mapping_at(here, entry)
        kind = part.get("type")
        if kind == "refusal":
            parts.append(_spoken(text_at(f"{here}.refusal", part.get("refusal"))))
        elif kind in _TEXT_PARTS:
            text = text_at(f"{here}.text", part.get("text"))
            parts.append(_spoken(text) if spoken else {"type": "input_text", "text": text})
        elif kind == "input_image" and not spoken:
            if not isinstance(part.get("image_url"), str):
                raise ApiError(
                    400, f"{here} needs image_url; files are not kept here", param=f"{here}.image_url"
                )
            parts.append(dict(part))
        elif kind == "input_audio" and not spoken:
            mapping_at(f"{here}.input_audio", part.get("input_audio"))
            parts.append(dict(part))
        else:
            raise ApiError(
                400,
                f"{here}.type is {kind!r:.60}; this server reads input_text, input_image, input_audio, and output_text "
                "of the assistant",
                param=f"{here}.type",
            )
    return parts


def _spoken(text: str) -> Item:
    return {"type": "output_text", "text": text, "annotations": []}


def _read_reasoning(item: Mapping[str, Any], place: str, item_id: str) -> Item:
    read: Item = {"type": "reasoning", "id": item_id}
    for name, kind in (("summary", "summary_text"), ("content", "reasoning_text")):
        parts = list_at(f"{place}.{name}", item.get(name) or [], of="parts")
        read[name] = [
            {
                "type": kind,
                "text": text_at(
                    f"{place}.{name}[{n}].text", mapping_at(f"{place}.{name}[{n}]", part).get("text")
                ),
            }
            for n, part in enumerate(parts)
        ]
    return read


def _read_call(item: Mapping[str, Any], place: str, item_id: str) -> Item:
    return {
        "type": "function_call",
        "id": item_id,
        "status": "completed",
        "call_id": text_at(f"{place}.call_id", item.get("call_id"), empty=False),
        "name": text_at(f"{place}.name", item.get("name"), empty=False),
        "arguments": text_at(f"{place}.arguments", item.get("arguments")),
    }


def _read_output(item: Mapping[str, Any], place: str, item_id: str) -> Item:
    output = item.get("output")
    return {
        "type": "function_call_output",
        "id": item_id,
        "status": "completed",
        "call_id": text_at(f"{place}.call_id", item.get("call_id"), empty=False),
        "output": output
        if isinstance(output, str)
        else _read_content(
            list_at(f"{place}.output", output, of="parts, or a text"), f"{place}.output", spoken=False
        ),
    }


_READERS: Mapping[str, Callable[[Mapping[str, Any], str, str], Item]] = {
    "message": _read_message,
    "reasoning": _read_reasoning,
    "function_call": _read_call,
    "function_call_output": _read_output,
}
