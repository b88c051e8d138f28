"""`data_of_uri`, `data_of_base64`: the bytes in a data URI or in bare base64 (RFC 2397, RFC 4648)."""

from __future__ import annotations

import binascii
from collections.abc import Iterator

from onnxgen.server.media.refusal import refusal

_PIECE = 1 << 20  # a multiple of four; between pieces other threads go on


def data_of_uri(uri: str, *, max_bytes: int, place: str) -> tuple[str, bytes]:
    """The declared type and the bytes of ``data:TYPE;base64,...``.

    Args:
        uri: The whole of it.
        max_bytes: The most that is decoded.
        place: The field of the request that it is in.

    Raises:
        ApiError: It is not base64, or too large.
    """
    head, comma, text = uri.partition(",")
    media_type, *words = head[len("data:") :].split(";")
    if not comma or "base64" not in [word.strip().lower() for word in words]:
        raise refusal(place, "a data URI is written data:TYPE;base64,DATA")
    return media_type.strip().lower(), data_of_base64(text, max_bytes=max_bytes, place=place)


def data_of_base64(text: str, *, max_bytes: int, place: str) -> bytes:
    """The bytes of a text in base64; strictly: nothing between its characters, and padded to its end.

    Raises:
        ApiError: It is something else, or too large.
    """
    # Before anything is decoded; four characters are three bytes.
    if len(text) // 4 * 3 > max_bytes + 2:
        raise refusal(place, f"it has about {len(text) // 4 * 3} bytes, and {max_bytes} are allowed")
    try:
        data = b"".join(_decoded(text))
    except (binascii.Error, ValueError):
        raise refusal(place, "it is not valid base64; is it cut off?") from None
    if len(data) > max_bytes:
        raise refusal(place, f"it has {len(data)} bytes, and {max_bytes} are allowed")
    return data


def _decoded(text: str) -> Iterator[bytes]:
    """Bytes of each piece of a text in base64."""
    for begin in range(0, len(text), _PIECE):
        piece = text[begin : begin + _PIECE]
        if piece.endswith("=") and begin + _PIECE < len(text):
            raise ValueError("more after its end")
        yield binascii.a2b_base64(piece, strict_mode=True)
