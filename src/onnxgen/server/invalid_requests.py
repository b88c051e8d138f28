"""`invalid_request`: what pydantic found wrong in a request, as an error that names the field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from onnxgen.server.errors import ApiError

MAX_ECHO = 200
"""Characters of what a request said that an error may repeat."""
_MAX_FAULTS = 3
_FOUND_IN = frozenset({"body", "query", "path", "header", "cookie"})
_NO_OBJECT = frozenset({"dict_type", "model_type", "model_attributes_type", "dataclass_type"})


def invalid_request(faults: Sequence[Mapping[str, Any]], body: Any = None) -> ApiError:
    """An error of status 400 that names the first field at fault, and says what is wrong with a few.

    Args:
        faults: As pydantic and FastAPI list them: each with ``type``, ``loc``, ``msg`` and perhaps ``ctx``.
        body: What was validated: only a place that it has can be named.
    """
    first = faults[0]
    kind, place = str(first["type"]), tuple(first["loc"])
    if kind == "json_invalid":
        where = f" at character {place[1]}" if len(place) > 1 else ""
        reason = short(str(first.get("ctx", {}).get("error", first["msg"])))
        return ApiError(400, f"the body is not valid JSON{where}: {reason}", code="invalid_json")
    if place == ("body",) and (kind in _NO_OBJECT or kind == "missing"):
        return ApiError(
            400, "the body must be a JSON object, sent with the header Content-Type: application/json"
        )
    named = [(field_name(tuple(fault["loc"]), body, str(fault["type"])), _reason(fault)) for fault in faults]
    told = list(dict.fromkeys(f"{name}: {reason}" if name else reason for name, reason in named))
    more = f"; and {len(told) - _MAX_FAULTS} more" if len(told) > _MAX_FAULTS else ""
    return ApiError(400, "; ".join(told[:_MAX_FAULTS]) + more, param=named[0][0])


def field_name(place: Sequence[str | int], body: Any, kind: str = "") -> str | None:
    """A place in a request as people write it, such as ``messages[0].role``; None: the request as a whole.

    Pydantic's places also have names of types, where a field may be of several; those are left out.

    Args:
        place: Where pydantic found the fault.
        body: What was validated.
        kind: Pydantic's word for the fault; of a ``missing`` one the last part is not in the body.
    """
    parts = place[1:] if place and place[0] in _FOUND_IN else place
    if place and place[0] != "body":
        body = None
    name, value = "", body
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        match part, value:
            case int(), list() if 0 <= part < len(cast(list[Any], value)):
                name, value = f"{name}[{part}]", cast(list[Any], value)[part]
            case str(), dict() if part in value or (last and kind == "missing"):
                name = f"{name}.{short(part)}" if name else short(part)
                value = cast(dict[str, Any], value).get(part)
            case str(), None if last and not name:
                name = short(part)
            case _:
                pass
    return name or None


def short(text: str) -> str:
    """A text that repeats at most `MAX_ECHO` characters of a request."""
    return text if len(text) <= MAX_ECHO else text[: MAX_ECHO - 1] + "…"


def _reason(fault: Mapping[str, Any]) -> str:
    reason = str(fault["msg"]).removeprefix("Value error, ")
    return short(reason[:1].lower() + reason[1:])
