"""What a JSON Schema says of a value, as far as formats other than JSON need it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

KINDS = frozenset(("string", "integer", "number", "boolean", "null", "array", "object"))
"""The types of JSON Schema."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_MAX_REFERENCES = 32
_KIND_BY_TYPE = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
}


class SchemaPart(NamedTuple):
    """A schema inside of another, which its references are into.

    Attributes:
        schema: The part.
        root: The whole.
    """

    schema: Any
    root: Mapping[str, Any]

    def resolved(self) -> Mapping[str, Any]:
        """The schema with its own reference followed; an empty one where it says nothing."""
        schema = self.schema
        for _ in range(_MAX_REFERENCES):
            if not isinstance(schema, Mapping):
                return _NOTHING
            schema = cast("Mapping[str, Any]", schema)
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            schema = _at(self.root, reference)
        return _NOTHING

    def inner(self, schema: Any) -> SchemaPart:
        """A part of this part."""
        return SchemaPart(schema, self.root)

    def kinds(self, known: dict[int, frozenset[str]] | None = None) -> frozenset[str]:
        """Types that a value may have; ``integer`` goes with ``number``.

        Args:
            known: Those of parts looked at already, each once, since references may go in circles.
        """
        schema = self.resolved()
        known = {} if known is None else known
        if id(schema) in known:
            return known[id(schema)]
        known[id(schema)] = frozenset()  # in a circle it adds nothing
        result = KINDS
        if (said := schema.get("type")) is not None:
            names = frozenset(_texts(said))
            result &= names | ({"integer"} if "number" in names else set())
        if (values := self.values()) is not None:
            result &= {_kind(value) for value in values}
        for key in ("anyOf", "oneOf"):
            if isinstance(parts := schema.get(key), list):
                kinds = [self.inner(part).kinds(known) for part in cast("list[Any]", parts)]
                result &= frozenset[str]().union(*kinds)
        if isinstance(parts := schema.get("allOf"), list):
            for part in cast("list[Any]", parts):
                result &= self.inner(part).kinds(known)
        known[id(schema)] = result
        return result

    def values(self) -> list[Any] | None:
        """The only values that are right, if the schema lists them."""
        schema = self.resolved()
        if "const" in schema:
            return [schema["const"]]
        values = schema.get("enum")
        return cast("list[Any]", values) if isinstance(values, list) else None

    def properties(self) -> dict[str, SchemaPart]:
        """Properties of an object, in order; those that are forbidden are left out."""
        properties = self.resolved().get("properties")
        if not isinstance(properties, Mapping):
            return {}
        items = cast("Mapping[str, Any]", properties).items()
        return {key: self.inner(part) for key, part in items if part is not False}

    def required(self) -> frozenset[str]:
        """Properties that an object must have."""
        return frozenset(_texts(self.resolved().get("required")))

    def others(self) -> SchemaPart | None:
        """What properties without a name of their own are; None: there are none.

        Where properties are named, there are others only if the schema says so in words.
        """
        schema = self.resolved()
        others = schema.get("additionalProperties", not schema.get("properties"))
        return None if others is False else self.inner(others)

    def document(self) -> dict[str, Any]:
        """The part as a schema of its own."""
        schema = self.schema
        if not isinstance(schema, Mapping):
            return {"not": {}} if schema is False else {}
        if not _refers(schema):
            return dict(cast("Mapping[str, Any]", schema))
        moved: dict[str, Any] = _moved(schema)
        return {**moved, "$defs": {**moved.get("$defs", {}), _ROOT: _moved(self.root)}}


_ROOT = "whole-schema"


def loosened(schema: Any) -> Any:
    """A schema without what grammars cannot follow, which is left to the model then."""
    if isinstance(schema, list):
        return [loosened(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, Mapping):
        return schema
    result: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", schema).items():
        if key in _MAPS and isinstance(value, Mapping):
            result[key] = {name: loosened(part) for name, part in cast("Mapping[str, Any]", value).items()}
        elif key in _PARTS:
            result[key] = loosened(value)
        elif key not in _NOT_FOLLOWED and not (key == "pattern" and _BEYOND_REGULAR.search(str(value))):
            result[key] = value
    if "oneOf" in result and "anyOf" not in result:
        result["anyOf"] = result.pop("oneOf")
    if not result.get("properties", {}).keys() <= set(_texts(result.get("required"))):
        result.pop("minProperties", None)
        result.pop("maxProperties", None)
    return result


_MAPS = frozenset(("properties", "patternProperties", "$defs", "definitions"))
_PARTS = frozenset(
    ("items", "additionalItems", "additionalProperties", "prefixItems", "allOf", "anyOf", "oneOf")
)
_NOT_FOLLOWED = frozenset(
    (
        *("uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems", "propertyNames"),
        *("not", "if", "then", "else", "unevaluatedProperties", "$dynamicRef", "$recursiveRef"),
        *("dependencies", "dependentRequired", "dependentSchemas"),
    )
)
_BEYOND_REGULAR = re.compile(r"\(\?(?:[=!]|<[=!])|\\[bB1-9k]")


def takes_nothing(parameters: Mapping[str, Any]) -> bool:
    """Whether a tool has no parameters: its schema lists none and says nothing of others."""
    return parameters.get("properties") == {} and not _SAYS_MORE & parameters.keys()


_SAYS_MORE = frozenset(("additionalProperties", "patternProperties", "anyOf", "oneOf", "allOf", "$ref"))


def _moved(schema: Any) -> Any:
    """A schema whose references go to where its root is put."""
    if isinstance(schema, list):
        return [_moved(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, Mapping):
        return schema
    result: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", schema).items():
        local = key == "$ref" and isinstance(value, str) and value.startswith("#")
        result[key] = f"#/$defs/{_ROOT}{value[1:]}" if local else _moved(value)
    return result


def _refers(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(_refers(part) for part in cast("list[Any]", schema))
    if not isinstance(schema, Mapping):
        return False
    items = cast("Mapping[str, Any]", schema).items()
    return any((key == "$ref" and isinstance(value, str)) or _refers(value) for key, value in items)


def _at(root: Any, reference: str) -> Any:
    """What a reference inside of the document points to; None where it points elsewhere or nowhere."""
    if not reference.startswith("#"):
        return None
    place = root
    for step in reference[1:].split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, Mapping):
            place = cast("Mapping[str, Any]", place).get(step)
        elif isinstance(place, list) and step.isdecimal() and int(step) < len(cast("list[Any]", place)):
            place = cast("list[Any]", place)[int(step)]
        else:
            return None
    return place


def _texts(value: Any) -> Iterable[str]:
    listed: Iterable[Any] = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return (item for item in listed if isinstance(item, str))


def _kind(value: Any) -> str:
    return _KIND_BY_TYPE.get(type(value), "null")
