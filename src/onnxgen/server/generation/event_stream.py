"""`EventStream`: an answer that goes out in pieces, as server-sent events.

::

    events ──> pump ──> waiting bytes ──> writer ──> socket
                          (bounded)         └── a comment, when nothing came for a while

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onnxgen.server.generation.answers import ClientLeftError

_log = logging.getLogger(__name__)

MAX_WAITING_BYTES = 256 * 1024
"""What may wait for a slow client; the rest waits where it comes from."""
KEEP_ALIVE = b": keep-alive\n\n"


async def _nothing() -> None:
    pass


class EventStream(Response):
    """An answer that goes out in pieces, and never waits in a buffer of ours or a proxy's.

    What comes in one moment goes out in one write. An error ends the stream as an event of its own.

    Args:
        events: Events as text, each with the empty line behind it; closed at the end, whatever happens.
        keep_alive_s: Silence after which a comment is sent, so that nobody between takes the connection for dead.
        stall_timeout_s: How long a client may leave unread what was sent, before the connection is given up.
        on_error: What clients are told when ``events`` raises.
        release: Called at the end, whatever happens.
        headers: Further headers.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes],
        *,
        keep_alive_s: float,
        on_error: Callable[[BaseException], bytes],
        stall_timeout_s: float = 60.0,
        release: Callable[[], Awaitable[object]] = _nothing,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            headers={"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no", **(headers or {})}
        )
        del self.headers["content-length"]
        self._events, self._on_error, self._release = events, on_error, release
        self._keep_alive_s, self._stall_timeout_s = keep_alive_s, stall_timeout_s
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._ended = False
        self._news, self._room = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        pump = asyncio.create_task(self._pump())
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while body := await self._take():
                async with asyncio.timeout(self._stall_timeout_s):
                    await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            _log.warning(
                "a client did not read its stream for %g s; the connection is given up", self._stall_timeout_s
            )
            raise
        except OSError:
            _log.debug("a client closed its stream")
        finally:
            pump.cancel()
            try:
                await asyncio.wait((pump,))
                await self._events.aclose()
            finally:
                await self._release()

    async def _pump(self) -> None:
        """Take events as they come."""
        try:
            async for event in self._events:
                self._put(event)
                while self._waiting_bytes > MAX_WAITING_BYTES:
                    self._room.clear()
                    await self._room.wait()
        except ClientLeftError:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            self._put(self._on_error(error))
        finally:
            self._ended = True
            self._news.set()

    def _put(self, event: bytes) -> None:
        self._waiting.append(event)
        self._waiting_bytes += len(event)
        self._news.set()

    async def _take(self) -> bytes:
        """What waits, or a comment if nothing came; empty at the end."""
        while not self._waiting and not self._ended:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._keep_alive_s):
                    await self._news.wait()
                continue
            return KEEP_ALIVE
        body = b"".join(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        self._room.set()
        return body
