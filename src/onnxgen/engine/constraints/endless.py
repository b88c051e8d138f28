"""Finds schemas that no finite value can meet, because they require themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_SCALARS = frozenset(("null", "boolean", "integer", "number", "string"))
_MAX_ROUNDS = 100

Target = Callable[[str], tuple[str, Any] | None]


def find_endless(root: Any, schemas: Mapping[str, Any], target: Target) -> str | None:
    """Say where a document's root leads to a schema without any finite value.

    Only recursion is looked at. A schema counts as finite as soon as one way to meet it is known; in rounds,
    until nothing new is learned, each linear in the size of the document.

    Args:
        root: The document.
        schemas: All schemas in it that count, by JSON pointer.
        target: Finds what a local reference (``#/...``) points to.

    Returns:
        The pointer of a schema at fault, or None where there is none.
    """
    if not isinstance(root, dict):
        return None
    finite: set[int] = set()

    def is_finite(node: Any) -> bool:
        return not isinstance(node, dict) or id(node) in finite

    waiting = [(pointer, node) for pointer, node in schemas.items() if isinstance(node, dict)]
    # Inner schemas were found after the outer ones, and are what those wait for.
    waiting.reverse()
    for _ in range(_MAX_ROUNDS):
        left = [(pointer, node) for pointer, node in waiting if not _learn(node, finite, is_finite, target)]
        if len(left) == len(waiting):
            break
        waiting = left
    else:
        return None
    return "" if id(root) not in finite else None


def _learn(node: dict[str, Any], finite: set[int], is_finite: Callable[[Any], bool], target: Target) -> bool:
    if _is_met(node, is_finite, target):
        finite.add(id(node))
        return True
    return False


def _is_met(node: dict[str, Any], is_finite: Callable[[Any], bool], target: Target) -> bool:
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        found = target(reference) if reference == "#" or reference.startswith("#/") else None
        if found is not None and not is_finite(found[1]):
            return False
    if not all(is_finite(part) for part in _listed(node.get("allOf"))):
        return False
    for key in ("anyOf", "oneOf"):
        options = _listed(node.get(key))
        if options and not any(is_finite(option) for option in options):
            return False
    if "const" in node or "enum" in node:
        return True
    types = node.get("type")
    names = {types} if isinstance(types, str) else set(_listed(types))
    if not names or names & _SCALARS:
        return True
    return ("object" in names and _object_is_met(node, is_finite)) or (
        "array" in names and _array_is_met(node, is_finite)
    )


def _object_is_met(node: dict[str, Any], is_finite: Callable[[Any], bool]) -> bool:
    properties = node.get("properties")
    held: dict[str, Any] = properties if isinstance(properties, dict) else {}
    other = node.get("additionalProperties", True)
    # A pattern may say something else of a name that is not listed: then nothing is claimed.
    unknown = True if "patternProperties" in node else other
    return all(is_finite(held.get(name, unknown)) for name in node.get("required", ()))


def _array_is_met(node: dict[str, Any], is_finite: Callable[[Any], bool]) -> bool:
    count = node.get("minItems", 0)
    items = node.get("items", True)
    first = _listed(items) or _listed(node.get("prefixItems"))
    rest = node.get("additionalItems", True) if isinstance(items, list) else items
    return all(is_finite(item) for item in first[:count]) and (count <= len(first) or is_finite(rest))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
