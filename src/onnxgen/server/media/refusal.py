"""`refusal`: an image or a sound that is not read, as an error that names the field."""

from __future__ import annotations

from onnxgen.server.errors import ApiError


def refusal(place: str, reason: str) -> ApiError:
    """An error of status 400.

    Args:
        place: The field, such as ``messages[0].content[1].image_url.url``.
        reason: Why it is not read; nothing of what it contains, and no address that a name was found to mean.
    """
    return ApiError(400, f"{place} cannot be read: {reason}", code="invalid_media", param=place)
