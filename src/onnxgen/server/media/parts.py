"""Images and sounds among the parts of a message, in the forms that clients write them in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from onnxgen.foundations.json_text import json_kind
from onnxgen.server.errors import ApiError
from onnxgen.server.media.check import MediaCheck
from onnxgen.server.media.policy import Kind

_NAMED_BY: Mapping[str, tuple[Kind, str]] = {
    "image_url": ("image", "image_url"),
    "input_image": ("image", "image_url"),
    "audio_url": ("audio", "audio_url"),
    "input_audio": ("audio", "input_audio"),
}
"""What each type of part is, and its field that says which."""


def is_media(kind: Any) -> bool:
    """Whether parts of a type are images or sounds."""
    return isinstance(kind, str) and kind in _NAMED_BY


def check_media_part(part: Mapping[str, Any], place: str, media: MediaCheck) -> None:
    """Judge an image or a sound.

    Args:
        part: A part of a message, of a type that `is_media`.
        place: Where it stands in the request.
        media: Judges it for the model that is asked.

    Raises:
        ApiError: 400, naming what is wrong with it; or the model has no sense for it.
    """
    kind, field = _NAMED_BY[part["type"]]
    given, here = part.get(field), f"{place}.{field}"
    if field == "input_audio":
        sound: Any = cast("Mapping[str, Any]", given if isinstance(given, Mapping) else {})
        data, form = sound.get("data"), sound.get("format")
        if not isinstance(data, str) or not isinstance(form, str):
            raise _wrong(here, "needs data, which is base64, and its format, such as wav")
        media.base64(data, kind=kind, declared=f"audio/{form.lower()}", place=f"{here}.data", part=place)
        return
    if isinstance(given, Mapping):
        given, here = cast("Mapping[str, Any]", given).get("url"), f"{here}.url"
    if not isinstance(given, str):
        raise _wrong(here, f"is {json_kind(given)}, expected a data URI or an address")
    media.source(given, kind=kind, place=here, part=place)


def _wrong(place: str, message: str) -> ApiError:
    return ApiError(400, f"{place} {message}", param=place)
