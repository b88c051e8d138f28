"""Finds the part of a schema that llguidance refused, when its message does not say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urldefrag

from onnxgen.engine.constraints.keywords import SCHEMA, SCHEMA_LISTS, SCHEMA_MAPS
from onnxgen.engine.constraints.schema_parts import children_of, escaped

_MAX_TRIES = 200
_HELD = ("$defs", "definitions")
_ELSEWHERE = re.compile("Resource '(.+)' is not present in a registry")

Refusal = Callable[[str], str | None]


def find_refused(
    schema: dict[str, Any], reason: str, refusal: Refusal, *, clock: Callable[[], float], until: float
) -> tuple[str, str]:
    """Say where the smallest refused part of a refused schema is.

    Parts are tried on their own, from the root inwards, as long as one of the children is refused too; a part
    that refers to others is not gone into. Bounded in tries and time.

    Args:
        schema: The schema made ready.
        reason: Why the whole is refused.
        refusal: Says why llguidance refuses a grammar, or None.
        clock: Gives the time in seconds.
        until: No part is tried after this time.

    Returns:
        Its JSON pointer, and why that part is refused.
    """
    elsewhere = _ELSEWHERE.search(reason)
    if elsewhere is not None and (found := _reference_to(elsewhere[1], schema)) is not None:
        return found[0], f"{found[1]!r:.80} is not in this schema, and other documents are not fetched"
    options = schema.get("x-guidance")
    pointer, node = "", schema
    tries = 0

    def is_refused(part: dict[str, Any]) -> bool:
        nonlocal tries, reason
        text = json.dumps({"grammars": [{"json_schema": {**part, "x-guidance": options}}]})
        if '"$ref"' in text or tries >= _MAX_TRIES or clock() > until:
            return False
        tries += 1
        found = refusal(text)
        reason = found or reason
        return found is not None

    while (found := next((part for part in _parts(node) if is_refused(part[1])), None)) is not None:
        pointer, node = f"{pointer}/{found[0]}", found[1]
    if "pattern" in node and is_refused({"type": "string", "pattern": node["pattern"]}):
        return f"{pointer}/pattern", reason
    return pointer, reason


def _reference_to(resource: str, schema: dict[str, Any]) -> tuple[str, str] | None:
    """A reference to a resource, and where it stands; it may be relative to the name of the schema."""
    todo: list[tuple[str, dict[str, Any]]] = [("", schema)]
    while todo:
        pointer, node = todo.pop()
        reference = node.get("$ref")
        if isinstance(reference, str) and not reference.startswith("#"):
            name = urldefrag(reference).url.lstrip("./")
            if name and resource.endswith(name):
                return f"{pointer}/$ref", reference
        held = [(key, node[key]) for key in _HELD if isinstance(node.get(key), dict)]
        children = [(f"{key}/{escaped(name)}", child) for key, named in held for name, child in named.items()]
        children += children_of(node)
        todo += [(f"{pointer}/{key}", child) for key, child in children if isinstance(child, dict)]
    return None


def _parts(node: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for key in SCHEMA:
        if isinstance(node.get(key), dict):
            yield key, node[key]
    for key in SCHEMA_LISTS:
        for place, child in enumerate(node.get(key, ())):
            if isinstance(child, dict):
                yield f"{key}/{place}", child
    required = node.get("required", ())
    named = [
        (key, name, child)
        for key in SCHEMA_MAPS
        for name, child in node.get(key, {}).items()
        if isinstance(child, dict)
    ]

    def is_optional(part: tuple[str, str, Any]) -> bool:
        return part[0] != "properties" or part[1] not in required

    # What is not required may be impossible without harm: look there last.
    for key, name, child in sorted(named, key=is_optional):
        yield f"{key}/{escaped(name)}", child
