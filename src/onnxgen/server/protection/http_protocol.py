"""Limits of connections: uvicorn's HTTP protocol with an end to patience, for what its settings leave open.

What uvicorn alone holds for ever: a connection that sends nothing, a head that never ends, an answer that nobody
reads. A connection waits for its client in these places, and no longer than said here:

    connected ──head_timeout_s──▶ head complete ──▶ the application has it (and a limit of its own for the body)
        ▲                                                │ answered, the rest of the body still comes
        └───────── next request ◀── drain_timeout_s ─────┘

A half-closed connection counts as closed: whether a client still listens cannot be told from whether it has left.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import httptools
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from onnxgen.server.write_now import WriteNow, offer_writer

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one connection may take.

    Attributes:
        max_connections: Connections at once; more get 503. None: any number.
        max_head_bytes: Bytes of a request's first line and headers.
        max_headers: Headers of a request.
        head_timeout_s: Seconds until the head of a request is complete.
        drain_timeout_s: Seconds in which the rest of a body is thrown away that was answered without it, so that
            the client gets to read the answer.
        write_stall_s: Seconds without progress after which a client that does not read is given up.
    """

    max_connections: int | None = 1024
    max_head_bytes: int = 64 * 1024
    max_headers: int = 200
    head_timeout_s: float = 20.0
    drain_timeout_s: float = 5.0
    write_stall_s: float = 60.0


class HeadTooLargeError(Exception):
    """The first line and the headers of a request are too large."""


class GuardedHttpProtocol(HttpToolsProtocol):
    """One connection, with `ConnectionLimits`."""

    limits = ConnectionLimits()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._in_head = True
        self._head_bytes = 0
        self._head_began = False
        self._refused = False
        self._lost = False
        self._deadline: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected."""
        super().connection_made(transport)
        most = self.limits.max_connections
        if most is not None and len(self.connections) > 2 * most:
            transport.abort()  # too many even to be told so
        elif most is not None and len(self.connections) > most:
            self._refuse(
                503, f"this server takes {most} connections at once and has as many; try again later"
            )
        else:
            self._expect(self.limits.head_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left, or was made to."""
        self._lost = True
        self._expect(None)
        if self._stall is not None:
            self._stall.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._refused or self._lost:
            return
        self._unset_keepalive_if_required()
        if self._in_head and self._deadline is None:
            self._expect(self.limits.head_timeout_s)
        self._head_bytes += len(data) if self._in_head else 0
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._decline_upgrade(self.parser.get_method(), data[offer.args[0] :])
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, HeadTooLargeError):
                self._refuse_head()
            else:
                self._refuse(400, "what was received is not a valid HTTP/1.1 request")
        else:
            # A header that does not end is with the parser, which tells of whole ones only.
            if self._in_head and self._head_bytes > self.limits.max_head_bytes:
                self._refuse_head()

    def _decline_upgrade(self, method: bytes, rest: bytes) -> None:
        """Go on in HTTP/1.1, where the parser would take the body for another protocol.

        Java's client offers HTTP/2 (h2c) with every first request of a connection, those with a body too.
        """
        if method == b"CONNECT":
            self._refuse(400, "this server is no proxy")
            return
        headers = [(n, v) for n, v in self.headers if n not in (b"upgrade", b"http2-settings")]
        lines = [
            b"%s %s HTTP/1.1" % (method, self.url),
            *(b"%s: %s" % header for header in headers),
            b"",
            b"",
        ]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._feed(b"\r\n".join(lines) + rest)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._in_head, self._head_began, self._head_bytes = True, True, 0

    def on_url(self, url: bytes) -> None:
        """A part of the request's target."""
        super().on_url(url)
        if len(self.url) > self.limits.max_head_bytes:
            raise HeadTooLargeError

    def on_header(self, name: bytes, value: bytes) -> None:
        """A whole header; after the body they are trailers, which nobody here reads."""
        if not self._in_head:
            return
        super().on_header(name, value)
        if len(self.headers) > self.limits.max_headers:
            raise HeadTooLargeError

    def on_headers_complete(self) -> None:
        """The head is complete, and the application begins."""
        self._in_head, self._head_began, self._head_bytes = False, False, 0
        if len(self.url) + sum(len(n) + len(v) + 4 for n, v in self.headers) > self.limits.max_head_bytes:
            raise HeadTooLargeError
        if self.parser.should_upgrade():
            return  # `_decline_upgrade` feeds it again
        self._expect(None)
        super().on_headers_complete()
        # Its task has not begun yet.
        self.cycle.transport = cast(asyncio.Transport, _AnswerTransport(self.transport, self._close))
        offer_writer(cast(Scope, self.cycle.scope), _writer(self.cycle))

    def on_message_complete(self) -> None:
        """The request came whole."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        self._in_head = True
        if self.cycle.response_complete:  # it was answered before, and this was the rest of it
            self._expect(self.limits.head_timeout_s)

    def on_response_complete(self) -> None:
        """The answer is written."""
        super().on_response_complete()
        if not self._in_head and self.cycle.response_complete and not self._refused:
            self._expect(self.limits.drain_timeout_s)

    def pause_writing(self) -> None:
        """The client reads more slowly than the answer comes."""
        super().pause_writing()
        self._watch_writing(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The client has caught up."""
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _watch_writing(self, left: int) -> None:
        self._stall = self.loop.call_later(self.limits.write_stall_s, self._on_stall, left)

    def _on_stall(self, left: int) -> None:
        now_left = self.transport.get_write_buffer_size()
        if now_left < left:
            self._watch_writing(now_left)
        else:
            _log.debug("a client did not read its answer for %s s and is given up", self.limits.write_stall_s)
            self.transport.abort()

    def _expect(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._on_deadline)

    def _on_deadline(self) -> None:
        self._deadline = None
        if self.transport.is_closing():
            return
        if self._is_answering:
            self._expect(
                self.limits.head_timeout_s
            )  # the next request is slow; the answer to this one goes on
        elif self._head_began and not self._refused:
            self._refuse(408, f"the head of the request did not come within {self.limits.head_timeout_s} s")
        else:
            self.transport.close()

    @property
    def _is_answering(self) -> bool:
        # None before the first request, which uvicorn does not declare.
        return bool(self.cycle) and not self.cycle.response_complete

    def _refuse_head(self) -> None:
        most, headers = self.limits.max_head_bytes, self.limits.max_headers
        self._refuse(431, f"the first line and the headers may have {most} bytes and {headers} headers")

    def _refuse(self, status: int, message: str) -> None:
        """Answer what is no request that the application could see, and close.

        Nothing is written into an answer that has begun. What still comes is thrown away for a moment: closing with
        unread bytes would reset the connection before the client could read why.
        """
        _log.debug("a connection is refused with %s: %s", status, message)
        self._refused = True
        if self._is_answering:
            began = self.cycle.response_started
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.flow.resume_writing()
            if began:
                self.transport.close()
                return
        kind = "service_unavailable" if status == 503 else "invalid_request_error"
        body = json.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}}).encode()
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(
            body
        )
        self.transport.write(STATUS_LINE[status] + head + body)
        self._linger()

    def _close(self) -> None:
        """Close after an answer, which the client gets to read even if its body still comes."""
        if self._in_head or self.transport.is_closing():
            self.transport.close()
        else:
            self._linger()

    def _linger(self) -> None:
        self._refused = True
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        self._expect(min(1.0, self.limits.drain_timeout_s))


class _AnswerTransport:
    """What uvicorn writes an answer to, and closes if its client asked for that."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self._transport, self.write, self.close = transport, transport.write, close

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _writer(cycle: RequestResponseCycle) -> WriteNow:
    """Writes parts of an answer of unknown length, as `RequestResponseCycle.send` does."""

    def write_now(body: bytes) -> bool:
        may = (
            body  # without any, this would be the end of the answer
            and cycle.response_started
            and cycle.chunked_encoding
            and not (cycle.response_complete or cycle.disconnected or cycle.flow.write_paused)
        )
        if may:
            cycle.transport.write(b"%x\r\n%b\r\n" % (len(body), body))
        return bool(may)

    return write_now


def guarded_http_protocol(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """The class for ``uvicorn.Config(http=...)``."""
    return type("GuardedHttpProtocol", (GuardedHttpProtocol,), {"limits": limits})
