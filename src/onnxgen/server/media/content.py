"""`checked_type`: what bytes are, by their beginning and not by what is said of them."""

from __future__ import annotations

import io

from onnxgen.server.media.policy import TYPES, Kind
from onnxgen.server.media.refusal import refusal

_SAME = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
}
_UNSAID = frozenset({"", "application/octet-stream", "binary/octet-stream"})


def type_of(data: bytes) -> str | None:
    """The type that the first bytes show; None: none that is known here."""
    match data[:12]:
        case head if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return "image/png"
        case head if head.startswith(b"\xff\xd8\xff"):
            return "image/jpeg"
        case head if head.startswith((b"GIF87a", b"GIF89a")):
            return "image/gif"
        case head if head[:4] == b"RIFF" and head[8:] == b"WEBP":
            return "image/webp"
        case head if head[:4] == b"RIFF" and head[8:] == b"WAVE":
            return "audio/wav"
        case head if head.startswith(b"fLaC"):
            return "audio/flac"
        case head if head.startswith(b"OggS"):
            return "audio/ogg"
        case head if head.startswith(b"ID3") or (head[:1] == b"\xff" and head[1:2] in b"\xfb\xf3\xf2\xfa"):
            return "audio/mpeg" if len(head) > 1 else None
        case _:
            return None


def checked_type(data: bytes, *, kind: Kind, declared: str, place: str) -> str:
    """The type of bytes, if it is one of its kind and the one that was declared.

    Args:
        data: All of them.
        kind: What is expected.
        declared: What was said of them; nothing and ``application/octet-stream`` say nothing.
        place: The field of the request that they come from.

    Raises:
        ApiError: It is another type.
    """
    found, said = type_of(data), _SAME.get(declared, declared)
    known = ", ".join(sorted(TYPES[kind]))
    if found not in TYPES[kind]:
        raise refusal(place, f"it is {found or 'of no known type'}; this server reads {known}")
    if said not in _UNSAID and said != found:
        raise refusal(place, f"it is {found} and not {declared!r:.60}")
    return found


def check_pixels(data: bytes, *, max_pixels: int, place: str) -> None:
    """Refuse an image that says it is larger than allowed, before it is unpacked. Takes a few ms: for a thread.

    Raises:
        ApiError: It is too large, or has no readable header.
    """
    from PIL import Image, UnidentifiedImageError

    too_many = Image.DecompressionBombError, Image.DecompressionBombWarning
    try:
        with Image.open(io.BytesIO(data), formats=["PNG", "JPEG", "GIF", "WEBP"]) as image:
            width, height = image.size
    except too_many:
        raise refusal(place, f"it has far more than the {max_pixels} pixels that are allowed") from None
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError):
        raise refusal(place, "its header is damaged") from None
    if width * height > max_pixels:
        raise refusal(place, f"it has {width} x {height} pixels, and {max_pixels} are allowed")
