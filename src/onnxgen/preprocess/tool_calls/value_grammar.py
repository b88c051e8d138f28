"""Grammars of values that are written as literals but not as JSON: Python's, and those with quotes of their own.

They follow a schema as far as such a grammar can: types, listed values, properties in the order of the schema
(required ones present, the others if the model likes), items, lengths of strings and numbers of items. Patterns,
formats and ranges are left to the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from onnxgen.preprocess.lark_text import LarkText, one_of, quoted
from onnxgen.preprocess.tool_calls.schemas import SchemaPart

_NEVER = "/[^\\s\\S]/"
_MAX_LENGTH = 10_000
_INTEGER = "/-?(0|[1-9][0-9]{0,17})/"
_NUMBER = r"/-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?/"
_BLANK = "/[ ]?/"
_ORDER = ("string", "integer", "number", "boolean", "null", "array", "object")


class ValueGrammar:
    """Symbols for values by schema; subclasses know how strings, keys and words are written.

    Args:
        lark: Takes the rules.
    """

    sorts_keys = False

    def __init__(self, lark: LarkText) -> None:
        self._lark = lark
        self._known: dict[
            int, tuple[str, Any]
        ] = {}  # rules by schema, which is kept so that its id stays its own

    def value(self, part: SchemaPart) -> str:
        """A symbol for a value."""
        schema = part.resolved()
        # References may go in circles: each schema has one rule, which may be part of itself.
        if id(schema) not in self._known:
            name = self._lark.declare("value")
            self._known[id(schema)] = name, schema
            self._lark.define(name, self._body(part))
        return self._known[id(schema)][0]

    def _body(self, part: SchemaPart) -> str:
        if (values := part.values()) is not None:
            return one_of(self._constant(value) for value in values) if values else _NEVER
        schema, kinds = part.resolved(), part.kinds()
        choices = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(choices, list):
            return one_of(self.value(part.inner(choice)) for choice in cast("list[Any]", choices))
        if "number" in kinds:
            kinds -= {"integer"}
        return one_of(self._of(kind, part) for kind in _ORDER if kind in kinds) if kinds else _NEVER

    def members(self, part: SchemaPart, *, between: str, others: str | None) -> str:
        """Symbols for ``key value`` pairs of an object, or nothing where it has none.

        Args:
            part: Schema of the object.
            between: A symbol for what separates two pairs.
            others: A symbol for a pair that the schema does not name; None: there is none.
        """
        required = part.required()
        properties = part.properties()
        names = sorted(properties) if self.sorts_keys else list(properties)
        pairs = [(self._pair(name, properties[name]), name in required) for name in names]
        if others is not None:
            pairs.append((self._lark.rule("others", f"{others} ({between} {others})*"), False))
        return separated(self._lark, pairs, between)

    def _of(self, kind: str, part: SchemaPart) -> str:
        schema = part.resolved()
        match kind:
            case "string":
                return self.string(*_bounds(schema, "minLength", "maxLength"))
            case "integer":
                return self._lark.rule("INTEGER", _INTEGER)
            case "number":
                return self._lark.rule("NUMBER", _NUMBER)
            case "boolean":
                return one_of(quoted(word) for value in (True, False) for word in self.words(value))
            case "null":
                return one_of(quoted(word) for word in self.words(None))
            case "array":
                return self._array(part)
            case _:
                return self._object(part)

    def _array(self, part: SchemaPart) -> str:
        schema = part.resolved()
        item = self.value(part.inner(schema.get("items")))
        low, high = _bounds(schema, "minItems", "maxItems")
        if high == 0:
            return quoted("[]")
        more = f"{{{max(0, low - 1)},{'' if high is None else high - 1}}}"
        items = f"{item} ({self.between} {item}){more}"
        return self._lark.rule("array", f'"[" {items} "]"' if low else f'"[" ({items})? "]"')

    def _object(self, part: SchemaPart) -> str:
        others = part.others()
        pair = None
        if others is not None:
            pair = f"{self.any_key()} {self.colon} {self.value(others)}"
            pair = self._lark.rule("pair", pair)
        members = self.members(part, between=self.between, others=pair)
        return self._lark.rule("object", f'"{{" {members} "}}"')

    def _pair(self, name: str, part: SchemaPart) -> str:
        return self._lark.rule("pair", f"{self.key(name)} {self.colon} {self.value(part)}")

    def _constant(self, value: Any) -> str:
        if isinstance(value, str):
            return self.constant_string(value)
        if isinstance(value, bool) or value is None:
            return one_of(quoted(word) for word in self.words(value))
        if isinstance(value, list):
            items = f" {self.between} ".join(self._constant(item) for item in cast("list[Any]", value))
            return f'"[" {items} "]"'
        if isinstance(value, dict):
            items = sorted(value.items()) if self.sorts_keys else value.items()  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportUnknownVariableType]
            pairs = [f"{self.key(str(key))} {self.colon} {self._constant(item)}" for key, item in items]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            return f'"{{" {f" {self.between} ".join(pairs)} "}}"'
        return quoted(json.dumps(value))

    def words(self, value: bool | None) -> tuple[str, ...]:
        """How true, false and null may be written."""
        raise NotImplementedError

    @property
    def between(self) -> str:
        """A symbol for what separates two values."""
        raise NotImplementedError

    @property
    def colon(self) -> str:
        """A symbol for what stands between a key and its value."""
        raise NotImplementedError

    def key(self, name: str) -> str:
        """A symbol for a key of an object."""
        raise NotImplementedError

    def any_key(self) -> str:
        """A symbol for a key that the schema does not name."""
        raise NotImplementedError

    def string(self, low: int, high: int | None) -> str:
        """A symbol for a string of so many characters."""
        raise NotImplementedError

    def constant_string(self, text: str) -> str:
        """A symbol for this string."""
        raise NotImplementedError


class PythonValues(ValueGrammar):
    """Python's literals. Strings have one line; single or double quotes."""

    def words(self, value: bool | None) -> tuple[str, ...]:
        """Python's words, and those of JSON, which models write as well."""
        return str(value), json.dumps(value)

    @property
    def between(self) -> str:
        """A comma."""
        return self._lark.rule("COMMA", "/,[ ]?/")

    @property
    def colon(self) -> str:
        """A colon."""
        return self._lark.rule("COLON", "/:[ ]?/")

    def key(self, name: str) -> str:
        """The key as it is written."""
        return self.constant_string(name)

    def any_key(self) -> str:
        """Any key as it is written."""
        return self.string(0, None)

    def string(self, low: int, high: int | None) -> str:
        """A string with its quotes."""
        count = f"{{{low},{'' if high is None else high}}}"
        escape = (
            r"""\\(["'\\nrtbf]|u[0-9a-cefA-CEF][0-9a-fA-F]{3}|u[dD][0-7][0-9a-fA-F]{2}|x[0-9a-fA-F]{2})"""
        )
        kinds = (f"{quote}([^{quote}\\\\\\x00-\\x1f\\x7f]|{escape}){count}{quote}" for quote in "\"'")
        return self._lark.rule("STRING", f"/{'|'.join(kinds)}/")

    def constant_string(self, text: str) -> str:
        """The string with its quotes."""
        double = json.dumps(text, ensure_ascii=False)
        single = "'" + double[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
        return one_of((self._lark.literal(double), self._lark.literal(single)))


class BraceValues(ValueGrammar):
    """Literals with keys that have no quotes, in alphabetical order, and strings with quotes of their own.

    Args:
        lark: Takes the rules.
        quote: Text on both sides of a string. Nothing inside is escaped.
    """

    sorts_keys = True

    def __init__(self, lark: LarkText, quote: str) -> None:
        super().__init__(lark)
        self._quote = quote

    def words(self, value: bool | None) -> tuple[str, ...]:
        """Those of JSON."""
        return (json.dumps(value),)

    @property
    def between(self) -> str:
        """A comma."""
        return quoted(",")

    @property
    def colon(self) -> str:
        """A colon."""
        return quoted(":")

    def key(self, name: str) -> str:
        """The key as it is written."""
        return self._lark.literal(name)

    def any_key(self) -> str:
        """Any key as it is written."""
        return self._lark.rule("KEY", r"/[A-Za-z_][A-Za-z0-9_-]{0,63}/")

    def string(self, low: int, high: int | None) -> str:
        """A string with its quotes."""
        return self._lark.rule("string", f"{self._lark.literal(self._quote)} {self._lark.until(self._quote)}")

    def constant_string(self, text: str) -> str:
        """The string with its quotes."""
        return self._lark.literal(f"{self._quote}{text}{self._quote}")


def separated(lark: LarkText, parts: list[tuple[str, bool]], between: str) -> str:
    """Symbols for parts in order, some of which may be absent, with something between those that are there.

    Args:
        lark: Takes the rules.
        parts: Symbols, and whether each must be there.
        between: A symbol for what stands between two.
    """
    if not parts:
        return ""
    # `rest` stands for what may follow a part: of the parts after it those that are there, each after `between`.
    rest = ""
    starts: list[str] = []
    for symbol, required in reversed(parts):
        starts = (
            [symbol + (f" {rest}" if rest else "")] if required else [f"{symbol} {rest}".strip(), *starts]
        )
        follow = f"{between} {symbol}".strip()
        rest = lark.rule("rest", f"{follow if required else f'({follow})?'} {rest}".strip())
    start = lark.rule("first", one_of(starts))
    return start if any(required for _, required in parts) else f"{start}?"


def _bounds(schema: Mapping[str, Any], low: str, high: str) -> tuple[int, int | None]:
    least, most = schema.get(low), schema.get(high)
    least = least if isinstance(least, int) and 0 <= least <= _MAX_LENGTH else 0
    return least, most if isinstance(most, int) and least <= most <= _MAX_LENGTH else None
