"""`Boundary`: the outermost of an application: every request has an id, every failure an answer and one line in the log."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onnxgen.server.error_answers import route_path, send_error

_log = logging.getLogger(__name__)

_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


def new_request_id() -> str:
    """An id that no other request has."""
    return f"req_{secrets.token_hex(16)}"


class Boundary:
    """Gives requests their ids, and answers those that fail beyond all other handlers.

    The id is the client's ``X-Request-Id`` if that is a sane one. It is in ``scope["state"]["request_id"]`` for
    everything inside, and in the header of every answer.

    Args:
        app: What is inside.
        root_path: The path under which a proxy shows the server: all inside must leave out the same.
        new_id: Makes ids.
    """

    def __init__(
        self, app: ASGIApp, *, root_path: str = "", new_id: Callable[[], str] = new_request_id
    ) -> None:
        self._app, self._root_path, self._new_id = app, root_path.rstrip("/"), new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection, as ASGI says."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
            return
        if self._root_path:
            scope["root_path"] = self._root_path
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _SANE_ID.fullmatch(given) else self._new_id()
        scope.setdefault("state", {})["request_id"] = request_id
        anthropic = route_path(scope).startswith("/v1/messages")
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                if anthropic:
                    headers["request-id"] = request_id
                headers.setdefault("X-Content-Type-Options", "nosniff")
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception as error:  # noqa: BLE001 - whatever it is, its client gets an answer
            # An answer that has begun is left unfinished, so that its client sees that it is not whole.
            _log.error("request %s failed unexpectedly", request_id, exc_info=error)
            if not started:
                await send_error(error, scope, receive, send_with_id)
