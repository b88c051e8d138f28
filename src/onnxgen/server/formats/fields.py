"""Fields of a request that may be many things, checked where they are read: each error names its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from onnxgen.foundations.json_text import json_kind
from onnxgen.server.errors import ApiError


def list_at(place: str, value: object, *, of: str) -> Sequence[Any]:
    """A list.

    Args:
        place: Where it stands, such as ``input[2].content``.
        value: What stands there.
        of: What it is a list of.

    Raises:
        ApiError: It is something else.
    """
    if not isinstance(value, list):
        raise ApiError(400, f"{place} is {json_kind(value)}, expected a list of {of}", param=place)
    return cast("list[Any]", value)


def mapping_at(place: str, value: object) -> Mapping[str, Any]:
    """An object.

    Raises:
        ApiError: It is something else.
    """
    if not isinstance(value, Mapping):
        raise ApiError(400, f"{place} is {json_kind(value)}, expected an object", param=place)
    return cast("Mapping[str, Any]", value)


def text_at(place: str, value: object, *, empty: bool = True) -> str:
    """A string; an empty one only if ``empty``.

    Raises:
        ApiError: It is something else, or not Unicode text.
    """
    if not isinstance(value, str):
        raise ApiError(400, f"{place} is {json_kind(value)}, expected a string", param=place)
    if not empty and not value:
        raise ApiError(400, f"{place} is empty", param=place)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ApiError(
                400, f"{place} has half a surrogate pair, which is no character", param=place
            ) from None
    return value
