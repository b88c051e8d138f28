"""Keywords of JSON Schema: which hold schemas, which are counts, which cannot be followed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

SCHEMA = ("items", "additionalItems", "additionalProperties")
"""Their value is a schema (``items`` may be a list of them)."""

SCHEMA_LISTS = ("prefixItems", "allOf", "anyOf", "oneOf")
SCHEMA_MAPS = ("properties", "patternProperties")

COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")

MAX_COUNTED = {
    "minItems": 5_000,
    "maxItems": 5_000,
    "minProperties": 5_000,
    "maxProperties": 5_000,
    "minLength": 1_000_000,
    "maxLength": 1_000_000,
}
"""Largest counts taken: each item is a rule of the grammar, each character a state of an expression."""

LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")

IN_PLACE = frozenset(("allOf", "anyOf", "oneOf", "$ref", "if", "not", "dependentSchemas", "dependencies"))
"""Keywords that bring further keywords to bear on the same value."""

TYPES = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))

KNOWN = frozenset(
    (
        *SCHEMA,
        *SCHEMA_LISTS,
        *SCHEMA_MAPS,
        *COUNTS,
        *LIMITS,
        *("type", "const", "enum", "required", "pattern", "format", "$ref"),
        # Without effect on what is valid.
        *("$schema", "$id", "id", "$anchor", "$defs", "definitions", "$comment", "$vocabulary"),
        *("title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly"),
        *("contentMediaType", "contentEncoding", "contentSchema", "x-guidance"),
    )
)

_ANYTHING = (True, {})

NOTHING_SAID: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "uniqueItems": lambda node: node["uniqueItems"] is False,
    "not": lambda node: node["not"] is False,
    "contains": lambda node: node.get("minContains") == 0 and "maxContains" not in node,
    "minContains": lambda node: "contains" not in node or node["minContains"] == 0,
    "maxContains": lambda node: "contains" not in node,
    "if": lambda node: "then" not in node and "else" not in node,
    "then": lambda node: "if" not in node,
    "else": lambda node: "if" not in node,
    "propertyNames": lambda node: node["propertyNames"] in _ANYTHING,
    "dependencies": lambda node: node["dependencies"] == {},
    "dependentRequired": lambda node: node["dependentRequired"] == {},
    "dependentSchemas": lambda node: node["dependentSchemas"] == {},
    "unevaluatedItems": lambda node: node["unevaluatedItems"] in _ANYTHING,
    "unevaluatedProperties": lambda node: node["unevaluatedProperties"] in _ANYTHING,
    "$dynamicRef": lambda node: False,
    "$recursiveRef": lambda node: False,
    "$dynamicAnchor": lambda node: True,
    "$recursiveAnchor": lambda node: True,
}
"""Keywords that cannot be followed, with the test whether they say nothing here and may be left out."""
