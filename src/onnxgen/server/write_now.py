"""`WriteNow`: a way past ASGI for the parts of a stream, since its coroutines would cost more than all else about a part.

An extension of a request's scope. Whoever changes bodies between the routes and the socket, such as a middleware that
compresses, must take it out of the scope, so that nothing passes it.

Source: https://asgi.readthedocs.io/en/latest/specs/main.html#extensions
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Scope

WriteNow = Callable[[bytes], bool]
"""Writes a part of the body of an answer that has begun, and says so; False: it did not, and ``send`` would have to wait."""

_NAME = "onnxgen.write_now"


def offer_writer(scope: Scope, write: WriteNow) -> None:
    """Let whoever answers a request write parts of the answer at once."""
    scope.setdefault("extensions", {})[_NAME] = write


def writer_of(scope: Scope) -> WriteNow | None:
    """Writes parts of the answer to a request; None: only ``send`` does."""
    return scope.get("extensions", {}).get(_NAME)
