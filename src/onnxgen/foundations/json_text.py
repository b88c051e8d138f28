"""JSON text to Python values, with errors that say where and what to do."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from onnxgen.errors import ModelFileError, OnnxgenError


class _RefusedError(ValueError):
    """The text is JSON to Python's reader, but not to ours."""


def parse_json(
    text: str, *, source: object, strict: bool = False, error: type[OnnxgenError] = ModelFileError
) -> Any:
    """Parse a JSON document.

    Args:
        text: The document, without a byte order mark.
        source: What the message calls it, such as its path.
        strict: Also refuse what Python's reader lets pass: a key that stands twice in one object, and
            ``NaN`` and ``Infinity``.
        error: Class of the error.

    Raises:
        OnnxgenError: (``error``) with line and column, and a hint where the mistake is a usual one.
    """
    try:
        if not strict:
            return json.loads(text)
        return json.loads(text, object_pairs_hook=_object_without_duplicates, parse_constant=_refuse_constant)
    except json.JSONDecodeError as cause:
        raise error(
            f"{source} is not valid JSON: line {cause.lineno}, column {cause.colno}: {cause.msg}{_hint(cause)}"
        ) from cause
    except _RefusedError as cause:
        raise error(f"{source}: {cause}") from cause
    except RecursionError as cause:
        raise error(f"{source} is nested too deeply to be read") from cause


def json_kind(value: object) -> str:
    """What a parsed value is, in JSON's words: ``an object``, ``an array``, ``a string``, ``a number``, ..."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    kinds = ((dict, "an object"), (list, "an array"), (str, "a string"), (int | float, "a number"))
    return next((name for kind, name in kinds if isinstance(value, kind)), f"a {type(value).__name__}")


def _hint(cause: json.JSONDecodeError) -> str:
    rest = cause.doc[cause.pos :].lstrip()
    if not rest or cause.msg.startswith("Unterminated"):
        return "; the text ends too early, it was probably cut short"
    if rest.startswith(("//", "/*", "#")):
        return "; JSON has no comments, remove them"
    before = cause.doc[: cause.pos].rstrip()
    if (before.endswith(",") and rest[0] in "]}") or rest[0] == ",":
        return "; there may be a comma too many"
    if rest.startswith("'"):
        return "; JSON strings stand in double quotes"
    return ""


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _RefusedError(f"the key {key!r} stands twice in one object; keep one of them")
        result[key] = value
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise _RefusedError(f"{name} is not a JSON number")
