"""`page_files`: the files of the chat page and the page of the API, as they are in the package."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from importlib.resources import files

_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""What goes with each file: nothing from elsewhere is loaded, nothing inline runs, and no other page shows this one."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file.

    Attributes:
        content: Its bytes.
        media_type: What it is.
        etag: Changes with its content.
    """

    content: bytes
    media_type: str
    etag: str


@functools.cache
def page_files() -> dict[str, PageFile]:
    """All files of the pages by name."""
    found: dict[str, PageFile] = {}
    for entry in files(__name__.rpartition(".")[0]).joinpath("static").iterdir():
        media_type = _MEDIA_TYPES.get(entry.name[entry.name.rfind(".") :])
        if media_type is not None:
            content = entry.read_bytes()
            found[entry.name] = PageFile(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found
