"""`EventStream`: an answer that goes out in pieces, as server-sent events.

::

    events ──> pump ──> waiting bytes ──> flush ──> socket      while the client keeps up
                          (bounded)  └──> writer ──> socket     else, as fast as it reads

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onnxgen.server.generation.client_watch import ClientLeftError
from onnxgen.server.generation.interruption import Interruption
from onnxgen.server.write_now import WriteNow, writer_of

_log = logging.getLogger(__name__)

MAX_WAITING_BYTES = 256 * 1024
"""What may wait for a slow client; the rest waits where it comes from."""
KEEP_ALIVE = b": keep-alive\n\n"


class StalledError(Exception):
    """A client does not read what was sent to it."""


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
        self._stalled = Interruption()
        self._is_sending, self._since = False, 0.0
        self._write_now: WriteNow | None = None
        self._will_flush = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        pump = asyncio.create_task(self._pump())
        self._loop = loop = asyncio.get_running_loop()
        self._since = loop.time()
        self._timer = loop.call_at(self._next_look, self._look)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            self._write_now = writer_of(scope)
            with self._stalled:
                while body := await self._take():
                    self._is_sending, self._since = True, loop.time()
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                    self._is_sending, self._since = False, loop.time()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except StalledError:
            # without the last message, the server closes the connection
            _log.warning("a client left its stream unread for %g s, and is given up", self._stall_timeout_s)
        except OSError:
            _log.debug("a client closed its stream")
        finally:
            self._timer.cancel()
            pump.cancel()
            try:
                await asyncio.wait((pump,))
                await self._events.aclose()
            finally:
                await self._release()

    @property
    def _due(self) -> float:
        """When something has to be done about silence or a client that reads nothing, on the loop's clock."""
        return self._since + (self._stall_timeout_s if self._is_sending else self._keep_alive_s)

    @property
    def _next_look(self) -> float:
        """Soon enough for a write that begins after this one."""
        return min(self._due, asyncio.get_running_loop().time() + self._stall_timeout_s)

    def _look(self) -> None:
        """One timer for a whole stream: two for each event would cost as much as the rest."""
        loop = asyncio.get_running_loop()
        if self._due <= loop.time():
            if self._is_sending:
                self._stalled.interrupt(StalledError())
                return
            self._since = loop.time()
            self._put(KEEP_ALIVE)
        self._timer = loop.call_at(self._next_look, self._look)

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
        if not event:  # as a part of a body it would end the answer
            return
        self._waiting.append(event)
        self._waiting_bytes += len(event)
        if self._write_now is None or self._is_sending:
            self._news.set()
        elif not self._will_flush:
            self._will_flush = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Write what waits, at a fraction of the time that waking the writer takes; if that cannot be, wake it."""
        self._will_flush = False
        if not self._waiting or self._is_sending:
            return
        assert self._write_now is not None
        if self._write_now(b"".join(self._waiting)):
            self._written()
            self._since = self._loop.time()
        else:
            self._news.set()

    async def _take(self) -> bytes:
        """What waits; empty at the end."""
        while not self._waiting and not self._ended:
            self._news.clear()
            await self._news.wait()
        body = b"".join(self._waiting)
        self._written()
        return body

    def _written(self) -> None:
        self._waiting, self._waiting_bytes = [], 0
        self._room.set()
