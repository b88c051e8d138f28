"""`MediaPolicy`: what messages may name, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["image", "audio"]

TYPES: Mapping[Kind, frozenset[str]] = {
    "image": frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"}),
    "audio": frozenset({"audio/wav", "audio/mpeg", "audio/flac", "audio/ogg"}),
}
"""What is read of each kind. No SVG: it is a program that names files and addresses of its own."""


@dataclass(frozen=True, slots=True)
class MediaPolicy:
    """What messages may name, and how much of it.

    Attributes:
        allow_urls: Whether http and https addresses are fetched.
        max_bytes: Of one image or sound.
        max_pixels: Of an image, as its own header says: what it takes unpacked.
        timeout_s: Seconds for a fetch, all redirects together.
        max_redirects: Redirects of one fetch.
        ports: Ports that are fetched from; None: all.
        max_fetches: Fetches at once.
    """

    allow_urls: bool = False
    max_bytes: int = 20 * 2**20
    max_pixels: int = 50_000_000
    timeout_s: float = 10.0
    max_redirects: int = 3
    ports: frozenset[int] | None = frozenset({80, 443})
    max_fetches: int = 8
