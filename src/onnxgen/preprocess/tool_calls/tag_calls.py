"""Calls whose parameters stand between tags, without quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from onnxgen.preprocess.tool_calls.arguments import json_value, properties_of, typed_value
from onnxgen.preprocess.tool_calls.bound import BoundFormat, first_text
from onnxgen.preprocess.tool_calls.layouts import TagCall
from onnxgen.preprocess.tool_calls.literals import json_object, json_string
from onnxgen.preprocess.tool_calls.scanners import Cursor, MalformedError, Step

_KEY = re.compile(r'[^<>"\n\ud800-\udfff]*')


def read_parameters(
    cursor: Cursor, bound: BoundFormat, layout: TagCall, schema: Mapping[str, Any]
) -> Step[str]:
    """Read the parameters of a call; returns them as JSON text of an object.

    Args:
        cursor: Where the first begins.
        bound: The format.
        layout: What they look like.
        schema: JSON Schema of the arguments; what a value without quotes is depends on it.

    Raises:
        MalformedError: They end too early.
    """
    properties = properties_of(schema)
    members: dict[str, str] = {}
    while (yield from cursor.accept(layout.before_key)):
        key = (yield from cursor.run(_KEY)).strip()
        yield from cursor.expect(layout.after_key)
        is_text = not layout.before_value or (yield from cursor.accept(layout.before_value))
        if not is_text:
            yield from cursor.expect(layout.before_json or layout.before_value)
        text = _trimmed((yield from _value(cursor, bound, layout)), layout)
        if layout.before_json:
            members[key] = (None if is_text else json_value(text)) or json_string(text)
        else:
            members[key] = typed_value(text, properties.get(key), schema)
    return json_object(members)


def _value(cursor: Cursor, bound: BoundFormat, layout: TagCall) -> Step[str]:
    """Read a value and the text behind it.

    Models forget that text. A value also ends where the next parameter begins on a line of its own, and
    where texts that close the call are followed, but for blanks, by those that open one or by the end.
    """
    after_value, before_key, first = layout.after_value.strip(), layout.before_key.strip(), first_text(layout)
    pieces: list[str] = []
    size = 0
    closed_at: int | None = None
    while True:
        before, marker = yield from cursor.until(bound.value_ends)
        pieces.append(before)
        size += len(before)
        if marker == after_value:
            return "".join(pieces)
        if closed_at is not None and before.strip():
            closed_at = None
        if marker == before_key and before.endswith("\n"):
            cursor.unread(len(marker))
            return "".join(pieces)
        pieces.append(marker)
        size += len(marker)
        if marker in bound.closings.markers:
            closed_at = size - len(marker) if closed_at is None else closed_at
        elif closed_at is not None and marker in ("", first or marker):
            cursor.unread(size - closed_at)
            return "".join(pieces)[:closed_at]
        elif not marker:
            raise MalformedError
        elif marker == before_key:
            closed_at = None


def _trimmed(text: str, layout: TagCall) -> str:
    """A value without the line ends that belong to the layout, or that a model writes as if they did."""
    if layout.before_value:
        return text
    begins, ends = text.startswith("\n"), text.endswith("\n") and len(text) > 1
    if layout.after_key.endswith("\n"):
        return text[begins : len(text) - ends]
    return text[1:-1] if begins and ends else text
