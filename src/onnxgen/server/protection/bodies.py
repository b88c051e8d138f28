"""`BodyLimits`: a request's body comes whole, in time, within a size and a depth, before the application sees any of it."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onnxgen.server.error_answers import send_error
from onnxgen.server.errors import ApiError
from onnxgen.server.protection.json_shape import JsonShape

MAX_DEPTH = 100
"""Levels of arrays and objects in a request: what walks them by recursion stays far from Python's limit."""
MAX_CONTAINERS = 200_000
"""Arrays and objects in a request: a twentieth of a second's parsing, during which nothing else goes on."""
MAX_VALUES = 1_000_000
"""Values in a request, such as token ids: likewise."""


class BodyLimits:
    """Receives bodies for an application, or refuses them.

    Args:
        app: What is inside; it receives each body in one piece.
        max_bytes: Of a body.
        timeout_s: Seconds until it is there.
        max_depth: Levels of arrays and objects in a body of JSON.
        max_containers: Arrays and objects in it.
        max_values: Values in it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_bytes: int,
        timeout_s: float,
        max_depth: int = MAX_DEPTH,
        max_containers: int = MAX_CONTAINERS,
        max_values: int = MAX_VALUES,
    ) -> None:
        self._app, self._max_bytes, self._timeout_s = app, max_bytes, timeout_s
        self._max_depth, self._max_containers, self._max_values = max_depth, max_containers, max_values

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection, as ASGI says."""
        if scope["type"] != "http" or not _has_body(scope):
            await self._app(scope, receive, send)
            return
        try:
            body = await self._body(scope, receive)
        except ApiError as error:
            await send_error(error, scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _replay(body, receive), send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body; None: its client left."""
        headers = Headers(scope=scope)
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > self._max_bytes:
            raise self._too_large(f"it has {short_number(declared)} bytes")
        is_json = "json" in headers.get("content-type", "json").lower()
        shape = JsonShape(
            max_depth=self._max_depth, max_containers=self._max_containers, max_values=self._max_values
        )
        pieces: list[bytes] = []
        num_bytes, more = 0, True
        try:
            async with asyncio.timeout(self._timeout_s):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    piece: bytes = message.get("body", b"")
                    more = message.get("more_body", False)
                    num_bytes += len(piece)
                    if num_bytes > self._max_bytes:
                        raise self._too_large("more came")
                    if is_json and (fault := shape.fault(piece)) is not None:
                        raise ApiError(400, f"the body {fault}", code="too_intricate")
                    pieces.append(piece)
        except TimeoutError:
            raise ApiError(
                408,
                f"the body did not come within {self._timeout_s:g} s; {num_bytes} bytes did",
                code="body_timeout",
            ) from None
        return b"".join(pieces)

    def _too_large(self, found: str) -> ApiError:
        return ApiError(
            413, f"a body may have {self._max_bytes} bytes here; {found}", code="request_too_large"
        )


def short_number(digits: str) -> str:
    """A number that a client made up, if it is no longer than numbers are."""
    return digits if len(digits) <= 20 else "far more"


def _has_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


def _replay(body: bytes, receive: Receive) -> Receive:
    """Receives a body in one piece, and then what comes after it: that the client left."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
