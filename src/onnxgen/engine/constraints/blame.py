"""Finds the part of a schema that llguidance refused, when its message does not say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from onnxgen.engine.constraints.keywords import SCHEMA, SCHEMA_LISTS, SCHEMA_MAPS
from onnxgen.engine.constraints.schema_parts import escaped

_MAX_TRIES = 200

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
