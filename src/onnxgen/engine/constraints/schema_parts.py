"""Parts of a JSON Schema and the JSON pointers (RFC 6901) that name them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import unquote

from onnxgen.engine.constraints.keywords import SCHEMA, SCHEMA_LISTS, SCHEMA_MAPS

_INDEX = re.compile("[0-9]{1,9}")


def children_of(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Schemas directly inside one, each with its pointer from there. Shapes were checked before."""
    for key in SCHEMA:
        if key in node and not isinstance(node[key], list):
            yield key, node[key]
    for key in (*SCHEMA_LISTS, "items"):
        if isinstance(node.get(key), list):
            for place, child in enumerate(node[key]):
                yield f"{key}/{place}", child
    for key in SCHEMA_MAPS:
        if isinstance(node.get(key), dict):
            for name, child in node[key].items():
                yield f"{key}/{escaped(name)}", child


def find_target(root: Any, reference: str) -> tuple[str, Any] | None:
    """What a reference within a document (``#`` or ``#/...``) points to, with its pointer; None for nothing."""
    parts = unquote(reference[2:]).split("/") if len(reference) > 1 else []
    node = root
    for part in parts:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and name in node:
            node = cast("dict[str, Any]", node)[name]
        elif isinstance(node, list) and _INDEX.fullmatch(name) and int(name) < len(cast("list[Any]", node)):
            node = cast("list[Any]", node)[int(name)]
        else:
            return None
    return "".join(f"/{part}" for part in parts), node


def escaped(name: str) -> str:
    """A key as it stands in a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
