"""A client that streams: it notes when each event came and reads nothing of it, so that it takes little from the server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import Self, cast

from benchmarks.http.wire import AnswerDecoder, EventSplitter, WireError


@dataclass
class Exchange:
    """A request, and what came back; seconds of `time.perf_counter`.

    Attributes:
        sent_s: When the request was sent.
        ended_s: When the answer ended.
        status: Of the answer; None if none came.
        headers: Of the answer.
        events: Data of the events of a stream, as they came.
        event_s: When each came.
        body: Of an answer that is no stream; of a stream, what follows its last event.
        comments: Lines of the stream that only keep it open.
        failure: What went wrong on the connection, if anything did.
        left: Whether this side went before the end, on purpose.
    """

    sent_s: float
    ended_s: float = 0.0
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    events: list[bytes] = field(default_factory=list)
    event_s: list[float] = field(default_factory=list)
    body: bytes = b""
    comments: int = 0
    failure: str | None = None
    left: bool = False


class Client:
    """One connection to a server, which is kept for the requests that follow each other, as clients' libraries keep it.

    Args:
        host: Address.
        port: Port.
        key: Sent as a bearer token, if there is one.
    """

    def __init__(self, host: str, port: int, *, key: str | None = None) -> None:
        self._host, self._port = host, port
        self._head = f"Host: {host}:{port}\r\n" + (f"Authorization: Bearer {key}\r\n" if key else "")
        self._connection: _Connection | None = None

    async def ask(
        self,
        path: str,
        body: bytes | None = None,
        *,
        timeout_s: float = 120.0,
        leave_after: int | None = None,
    ) -> Exchange:
        """Send a request (POST with a body, else GET) and take what comes.

        Args:
            path: Its target.
            body: JSON.
            timeout_s: After so many seconds the connection is closed, and that is a failure.
            leave_after: Close the connection when so many events came.
        """
        method = "GET" if body is None else "POST"
        sizes = "" if body is None else f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        request = f"{method} {path} HTTP/1.1\r\n{self._head}{sizes}\r\n".encode("latin-1") + (body or b"")
        reused = self._connection is not None and self._connection.is_open
        exchange = await self._exchange(request, timeout_s, leave_after)
        if reused and exchange.failure is not None and exchange.status is None:
            exchange = await self._exchange(
                request, timeout_s, leave_after
            )  # it was closed while nothing was asked
        return exchange

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    async def _exchange(self, request: bytes, timeout_s: float, leave_after: int | None) -> Exchange:
        exchange = Exchange(time.perf_counter())
        try:
            async with asyncio.timeout(timeout_s):
                connection = self._connection
                if connection is None or not connection.is_open:
                    loop = asyncio.get_running_loop()
                    _, connection = await loop.create_connection(_Connection, self._host, self._port)
                    self._connection = connection
                await connection.send(request, exchange, leave_after)
        except TimeoutError:
            exchange.failure = f"no end within {timeout_s:g} s"
            self.close()
        except OSError as error:
            exchange.failure = f"{type(error).__name__}: {error}"
            self.close()
        exchange.ended_s = time.perf_counter()
        return exchange


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.is_open = False
        self._exchange: Exchange | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self.is_open = cast("asyncio.Transport", transport), True

    async def send(self, request: bytes, exchange: Exchange, leave_after: int | None) -> None:
        self._exchange, self._leave_after = exchange, leave_after
        self._decoder, self._splitter = AnswerDecoder(), EventSplitter()
        self._ended = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        await self._ended

    def close(self) -> None:
        self.is_open = False
        self._exchange = None
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:  # nothing was asked
            self.close()
            return
        now = time.perf_counter()
        try:
            parts = self._decoder.feed(data)
        except WireError as error:
            self._end(failure=str(error))
            return
        if exchange.status is None and self._decoder.status is not None:
            exchange.status, exchange.headers = self._decoder.status, self._decoder.headers
            self._is_stream = exchange.headers.get("content-type", "").startswith("text/event-stream")
        for part in parts:
            if self._is_stream:
                events = self._splitter.feed(part)
                exchange.events += events
                exchange.event_s += [now] * len(events)
            else:
                exchange.body += part
        if self._leave_after is not None and len(exchange.events) >= self._leave_after:
            exchange.left = True
            self._end()
        elif self._decoder.is_whole:
            self._end(keep=self._decoder.keeps_connection)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        if self._exchange is not None:
            with contextlib.suppress(WireError):
                self._decoder.end()
            cut = (
                None
                if self._decoder.is_whole
                else f"the connection was closed early ({error or 'by the server'})"
            )
            self._end(failure=cut)

    def _end(self, *, keep: bool = False, failure: str | None = None) -> None:
        exchange = self._exchange
        assert exchange is not None
        exchange.failure, exchange.comments = failure, self._splitter.comments
        exchange.body += self._splitter.rest
        self._exchange = None
        if not keep:
            self.close()
        if not self._ended.done():
            self._ended.set_result(None)
