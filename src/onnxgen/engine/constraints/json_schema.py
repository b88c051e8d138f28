"""A JSON Schema made ready for llguidance: checked with its places named, and said in words it can follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, cast

from onnxgen.engine.constraints.budget import Budget
from onnxgen.engine.constraints.endless import find_endless
from onnxgen.engine.constraints.formats import EXACT, FORMATS
from onnxgen.engine.constraints.keywords import (
    COUNTS,
    IN_PLACE,
    KNOWN,
    LIMITS,
    MAX_COUNTED,
    NOTHING_SAID,
    SCHEMA_LISTS,
    SCHEMA_MAPS,
    TYPES,
)
from onnxgen.engine.constraints.patterns import rust_pattern
from onnxgen.engine.constraints.schema_parts import children_of, escaped, find_target
from onnxgen.errors import GrammarError
from onnxgen.preprocess.json_blanks import JSON_BLANKS

_PLAIN_ESCAPES = 'nrbtf\\"'
_EXACT = 2**53
_DIALECTS = ("2020-12", "2019-09", "07", "06", "04")
_BESIDE_REFERENCE = frozenset(
    ("$ref", "$schema", "$defs", "definitions", "title", "description", "$comment", "x-guidance")
)
_OPTIONS = frozenset(
    (
        "item_separator",
        "key_separator",
        "whitespace_flexible",
        "whitespace_pattern",
        "coerce_one_of",
        "json_allowed_escapes",
        "json_allow_general_unicode_escapes",
    )
)


class SchemaReader:
    """Walks the schemas of one document, each once, and changes them in place.

    Args:
        root: The document, parsed; belongs to the reader.
        path: Where the document is in something larger, for messages.

    Attributes:
        schemas: All schemas found, by where they are (a JSON pointer).
        warnings: Where the schema is followed less strictly, or more so, than it says.
    """

    def __init__(self, root: Any, *, path: str = "") -> None:
        self.root = root
        self.schemas: dict[str, Any] = {}
        self.warnings: list[str] = []
        self._path = path
        self._seen: set[int] = set()
        self._todo: list[tuple[str, Any]] = []
        self._budget = Budget()
        self._names_keys = False
        # Up to draft 7 nothing beside a reference counts.
        self._reference_is_alone = False

    def ready(self) -> dict[str, Any]:
        """The schema as llguidance shall have it.

        Raises:
            GrammarError: A part is wrong, cannot be followed or cannot be met; the message has its place.
        """
        self._add("", self.root)
        while self._todo:
            pointer, node = self._todo.pop()
            self._within(pointer, self._budget.add_schema())
            self.schemas[pointer] = node
            if isinstance(node, dict):
                self._read(pointer, cast("dict[str, Any]", node))
            elif not isinstance(node, bool):
                self._refuse(pointer, f"a schema is an object or a boolean, not {_short(node)}")
        if self.root is False:
            self._refuse("", "nothing is valid for the schema false, so nothing can be written")
        endless = find_endless(self.root, self.schemas, self._target)
        if endless is not None:
            self._refuse(endless, "it requires itself without end, so nothing finite is valid")
        ready = cast("dict[str, Any]", {} if self.root is True else self.root)
        return {**ready, "x-guidance": self._options(ready.get("x-guidance"))}

    def _read(self, pointer: str, node: dict[str, Any]) -> None:
        if "$ref" in node:
            self._read_reference(pointer, node["$ref"])
        self._read_dialect(pointer, node)
        if self._reference_is_alone and "$ref" in node:
            self._drop_siblings(pointer, node)
        self._drop_silent(pointer, node)
        self._check_shapes(pointer, node)
        self._read_types(pointer, node)
        self._read_numbers(pointer, node)
        self._read_texts(pointer, node)
        self._read_object(pointer, node)
        for key, child in children_of(node):
            self._add(f"{pointer}/{key}", child)
        for key in node:
            if key not in KNOWN:
                self._warn(pointer, f"the keyword {key!r:.60} is unknown and has no effect")

    def _check_shapes(self, pointer: str, node: dict[str, Any]) -> None:
        for key in SCHEMA_MAPS:
            if not isinstance(node.get(key, {}), dict):
                self._refuse(f"{pointer}/{key}", f"{key} is an object of schemas, not {_short(node[key])}")
        for key in SCHEMA_LISTS:
            if not isinstance(node.get(key, []), list):
                self._refuse(f"{pointer}/{key}", f"{key} is a list of schemas, not {_short(node[key])}")

    def _drop_silent(self, pointer: str, node: dict[str, Any]) -> None:
        alone = not IN_PLACE.intersection(node)
        for old, new in (("unevaluatedProperties", "additionalProperties"), ("unevaluatedItems", "items")):
            if alone and old in node and new not in node and "additionalItems" not in node:
                node[new] = node.pop(old)
        if isinstance(node.get("$dynamicAnchor"), str):
            node.setdefault("$anchor", node["$dynamicAnchor"])
        silent = [key for key in node if key in NOTHING_SAID]
        for key in silent:
            if not NOTHING_SAID[key](node):
                self._refuse(f"{pointer}/{key}", f"the keyword {key!r} is not supported by grammars")
        for key in silent:
            del node[key]

    def _read_dialect(self, pointer: str, node: dict[str, Any]) -> None:
        dialect = node.get("$schema")
        if dialect is None:
            return
        text = str(dialect).removeprefix("http://").removeprefix("https://").rstrip("#")
        known = next((d for d in _DIALECTS if text == f"json-schema.org/draft{_dash(d)}{d}/schema"), None)
        if known is None and text != "json-schema.org/schema":
            self._refuse(f"{pointer}/$schema", f"the dialect {_short(dialect)} is unknown")
        self._reference_is_alone |= not pointer and known in ("07", "06", "04")
        if known is None or known.startswith("20"):
            node["$schema"] = f"https://json-schema.org/draft/{known or '2020-12'}/schema"
        else:
            node["$schema"] = f"http://json-schema.org/draft-{known}/schema#"

    def _drop_siblings(self, pointer: str, node: dict[str, Any]) -> None:
        for key in [key for key in node if key not in _BESIDE_REFERENCE]:
            del node[key]
            self._warn(f"{pointer}/{key}", "has no effect beside $ref in this dialect")

    def _read_types(self, pointer: str, node: dict[str, Any]) -> None:
        types = node.get("type", [])
        for name in [types] if isinstance(types, str) else types if isinstance(types, list) else [None]:
            if not isinstance(name, str) or name not in TYPES:
                self._refuse(f"{pointer}/type", f"{_short(types)} is no type, nor a list of types")
        for key, values in (("const", [node.get("const")]), ("enum", node.get("enum", []))):
            if not isinstance(values, list):
                self._refuse(f"{pointer}/enum", f"enum is a list, not {_short(values)}")
            number = next(_large_numbers(values), None)
            if number is not None:
                self._refuse(
                    f"{pointer}/{key}", f"{number} is too large: whole numbers up to 2**53 can be told apart"
                )

    def _read_numbers(self, pointer: str, node: dict[str, Any]) -> None:
        for key in COUNTS:
            count = node.get(key)
            if count is None:
                continue
            if isinstance(count, float) and count.is_integer():
                node[key] = count = int(count)
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                self._refuse(f"{pointer}/{key}", f"{key} is a whole number from 0 on, not {_short(count)}")
            if count > MAX_COUNTED[key]:
                self._refuse(f"{pointer}/{key}", f"{key} is {count}, at most {MAX_COUNTED[key]} is supported")
        for key in LIMITS:
            limit = node.get(key)
            if limit is None or (isinstance(limit, bool) and key.startswith("exclusive")):
                continue
            if isinstance(limit, bool) or not isinstance(limit, int | float):
                self._refuse(f"{pointer}/{key}", f"{key} is a number, not {_short(limit)}")
            if key == "multipleOf":
                if limit <= 0:
                    self._refuse(f"{pointer}/{key}", f"multipleOf is more than 0, not {_short(limit)}")
                self._within(f"{pointer}/{key}", self._budget.add_multiple(limit))
            elif abs(limit) > _EXACT:
                self._narrow(pointer, node, key, limit)

    def _narrow(self, pointer: str, node: dict[str, Any], key: str, limit: float) -> None:
        upper = key in ("maximum", "exclusiveMaximum")
        if upper != (limit > 0):
            self._refuse(f"{pointer}/{key}", f"{key} is {limit}, which leaves only numbers beyond 2**53")
        node[key] = _EXACT if upper else -_EXACT
        self._warn(f"{pointer}/{key}", f"numbers beyond {'' if upper else '-'}2**53 are not written")

    def _read_texts(self, pointer: str, node: dict[str, Any]) -> None:
        pattern = node.get("pattern")
        if pattern is not None:
            if not isinstance(pattern, str):
                self._refuse(f"{pointer}/pattern", f"a pattern is text, not {_short(pattern)}")
            node["pattern"] = rust_pattern(pattern)
        name = node.get("format")
        if name is None:
            return
        if not isinstance(name, str) or name not in FORMATS:
            del node["format"]
            self._warn(f"{pointer}/format", f"the format {_short(name)} is not enforced")
        elif name in EXACT and "pattern" not in node:
            del node["format"]
            node["pattern"] = EXACT[name]
        elif name in EXACT:
            node["allOf"] = [*node.get("allOf", ()), {"pattern": EXACT[name]}]

    def _read_object(self, pointer: str, node: dict[str, Any]) -> None:
        required = node.get("required", [])
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            self._refuse(f"{pointer}/required", f"required is a list of names, not {_short(required)}")
        patterns = node.get("patternProperties", {})
        self._within(f"{pointer}/patternProperties", self._budget.add_patterns(len(patterns)))
        self._within(f"{pointer}/properties", self._budget.add_properties(len(node.get("properties", ()))))
        self._within(f"{pointer}/required", self._budget.add_properties(len(required)))
        if patterns:
            node["patternProperties"] = {rust_pattern(key): value for key, value in patterns.items()}
        if {"properties", "required", "patternProperties"}.intersection(node):
            self._names_keys |= node.get("additionalProperties") is not False
        if node.get("minProperties", 0) > max(1, len(required)):
            self._warn(f"{pointer}/minProperties", "a key written twice counts twice")

    def _read_reference(self, pointer: str, reference: object) -> None:
        if not isinstance(reference, str):
            self._refuse(f"{pointer}/$ref", f"a reference is text, not {_short(reference)}")
        if reference.startswith("#/") or reference == "#":
            target = self._target(reference)
            if target is None:
                self._refuse(f"{pointer}/$ref", f"there is nothing at {reference!r:.80}")
            self._add(*target)
        else:
            # It may name any part by an anchor or an identifier: all of them count. llguidance finds it, or
            # says that it is not in this document; nothing is ever fetched.
            for key in ("$defs", "definitions"):
                held = self.root.get(key) if isinstance(self.root, dict) else None
                if isinstance(held, dict):
                    for name, child in cast("dict[str, Any]", held).items():
                        self._add(f"/{key}/{escaped(name)}", child)

    def _target(self, reference: str) -> tuple[str, Any] | None:
        return find_target(self.root, reference)

    def _add(self, pointer: str, node: Any) -> None:
        # Booleans are one object wherever they stand.
        if isinstance(node, bool):
            self._within(pointer, self._budget.add_schema())
            self.schemas[pointer] = node
        elif id(node) not in self._seen:
            self._seen.add(id(node))
            self._todo.append((pointer, node))

    def _options(self, asked: object) -> dict[str, Any]:
        # Named keys are told apart from others by their text as written, so they must have one spelling.
        options: dict[str, Any] = {"whitespace_pattern": JSON_BLANKS}
        if self._names_keys:
            options["json_allowed_escapes"] = _PLAIN_ESCAPES
        else:
            options["json_allow_general_unicode_escapes"] = True
        if asked is None:
            return options
        if not isinstance(asked, dict):
            self._refuse("/x-guidance", f"its options are an object, not {_short(asked)}")
        asked = cast("dict[str, Any]", asked)
        for key in asked:
            if key not in _OPTIONS:
                self._refuse(f"/x-guidance/{key}", f"options here are {', '.join(sorted(_OPTIONS))}")
        if asked.get("coerce_one_of"):
            self._warn("/x-guidance/coerce_one_of", "oneOf is followed as anyOf where they differ")
        options |= asked
        if options.pop("whitespace_flexible", True) is False and "whitespace_pattern" not in asked:
            return {**options, "whitespace_flexible": False, "whitespace_pattern": None}
        return options

    def _within(self, pointer: str, excess: str | None) -> None:
        if excess is not None:
            self._refuse(pointer, f"{excess}: make it smaller")

    def _warn(self, pointer: str, what: str) -> None:
        self.warnings.append(f"{self._path}{pointer or '/'}: {what}")

    def _refuse(self, pointer: str, what: str) -> NoReturn:
        raise GrammarError(f"JSON schema, at {self._path}{pointer or '/'}: {what}")


def _large_numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _large_numbers(part)
    elif isinstance(value, int | float) and abs(value) > _EXACT:
        yield value


def _dash(dialect: str) -> str:
    return "/" if dialect.startswith("20") else "-"


def _short(value: object) -> str:
    return f"{value!r:.60}"
