"""`ObservedApp`: counts HTTP answers, and lets all code below know which request it works for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onnxgen.server.observe.context import CURRENT, RequestContext
from onnxgen.server.observe.metrics import Metrics

_log = logging.getLogger("onnxgen.server.http")

_TRACE = (b"traceparent", b"tracestate")
_MOST_TRACE_BYTES = 512
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class ObservedApp:
    """An application whose answers are counted. Belongs inside of what gives requests their ids.

    Args:
        app: The application.
        metrics: Where to count.
        clock: Seconds from any beginning.
    """

    def __init__(
        self, app: ASGIApp, *, metrics: Metrics, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._app, self._metrics, self._clock = app, metrics, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection, as ASGI says."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._clock()
        request_id = scope.get("state", {}).get("request_id")
        current = RequestContext(request_id, _trace_headers(scope)) if isinstance(request_id, str) else None
        token = CURRENT.set(current)
        status = 0

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_counted)
        except Exception:
            status = status or 500  # what is outside of this says so
            raise
        finally:
            if status:
                route, method = route_of(scope), scope["method"]
                self._metrics.responded(route, method if method in _METHODS else "other", status)
                # failures of the server have a line of whoever answers them
                untold = 400 <= status < 500 and not (current and current.observed)
                level = logging.INFO if untold else logging.DEBUG
                took_ms = 1000 * (self._clock() - began)
                _log.log(level, "%s %s: %d in %.1f ms", method, route, status, took_ms)
            CURRENT.reset(token)


def route_of(scope: Scope) -> str:
    """The path as the application declares it; ``none`` where no route was reached, whatever clients made up."""
    route = scope.get("route")
    path = getattr(route, "path_format", None) or getattr(route, "path", None)
    return path if isinstance(path, str) else "none"


def _trace_headers(scope: Scope) -> dict[str, str]:
    return {
        name.decode(): value.decode("latin-1")
        for name, value in scope["headers"]
        if name in _TRACE and len(value) <= _MOST_TRACE_BYTES
    }
