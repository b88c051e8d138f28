"""JSON in and out, with nesting bounded before any parser recurses into it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from onnxgen.errors import GrammarError

MAX_NESTING = 100
"""Brackets inside one another. llguidance's own parser of JSON stops at 128, of which some are ours."""

_PIECES = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)


def read_json(text: str, *, what: str) -> Any:
    """Parse JSON text.

    Raises:
        GrammarError: It is no JSON, is nested too deeply, or an object of it has a key twice.
    """
    check_nesting(text, what=what)
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, what), parse_constant=_refuse)
    except ValueError as error:
        raise GrammarError(f"the {what} is no JSON: {error}") from error


def json_text(value: object, *, what: str) -> str:
    """Write JSON text, keys in the order they have.

    Raises:
        GrammarError: It cannot be JSON (which part is said), or is nested too deeply.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    except RecursionError as error:
        raise GrammarError(f"the {what} is nested more than {MAX_NESTING} deep: flatten it") from error
    except (TypeError, ValueError) as error:
        raise GrammarError(f"the {what} cannot be written as JSON: {error}") from error
    check_nesting(text, what=what)
    return text


def check_nesting(text: str, *, what: str) -> None:
    """See that brackets outside strings are not inside one another too deeply; linear time.

    Raises:
        GrammarError: They are.
    """
    depth = 0
    for piece in _PIECES.finditer(text):
        match piece.group()[0]:
            case "[" | "{":
                depth += 1
                if depth > MAX_NESTING:
                    raise GrammarError(f"the {what} is nested more than {MAX_NESTING} deep: flatten it")
            case "]" | "}":
                depth -= 1
            case _:
                pass


def _object(pairs: list[tuple[str, Any]], what: str) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise GrammarError(f"the {what} has the key {twice!r:.60} twice in one object")
    return found


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return list(value)
    raise TypeError(f"{value!r:.60} is a {type(value).__name__}")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")
