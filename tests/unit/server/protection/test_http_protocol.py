"""Real sockets: what connections may take, with short limits so that tests need not wait."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

from onnxgen.server.protection.http_protocol import ConnectionLimits, guarded_http_protocol
from onnxgen.server.write_now import writer_of
from server_doubles import running

SHORT = ConnectionLimits(
    max_connections=8,
    max_head_bytes=8192,
    max_headers=50,
    head_timeout_s=0.4,
    drain_timeout_s=0.4,
    write_stall_s=0.4,
)
HEAD = b" HTTP/1.1\r\nHost: x\r\n"
GET = b"GET /" + HEAD + b"Connection: close\r\n\r\n"


class Counting:
    """Counts the bytes of bodies; remembers which requests were left by their client."""

    def __init__(self):
        self.left = threading.Event()
        self.seen = []
        self.headers = []

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": message["type"] + ".complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        self.seen.append(scope["path"])
        if scope["path"] == "/early":
            return await self.answer(send, 413, b"no")
        num_bytes, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.set()
                return None
            num_bytes, more = num_bytes + len(message["body"]), message["more_body"]
        self.headers = scope["headers"]
        if scope["path"].startswith("/now"):
            return await self.answer_now(writer_of(scope), send, sized=scope["path"] == "/now-sized")
        if scope["path"] == "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
            assert (await receive())["type"] == "http.disconnect"
            self.left.set()
            return None
        if scope["path"] == "/endless":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while not self.left.is_set():
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
                if self.disconnected(receive):
                    self.left.set()
            return None
        return await self.answer(send, 200, str(num_bytes).encode())

    async def answer_now(self, write_now, send, *, sized):
        self.now = [write_now(b"too early")]
        headers = [(b"content-length", b"4")] if sized else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self.now += [write_now(b"n") for _ in range(2)] + [write_now(b"")]
        await send({"type": "http.response.body", "body": b"sent", "more_body": True})
        self.now += [write_now(b"ow" * 20_000), write_now(b"too late" * (1 << 20)), write_now(b"full")]
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        self.now.append(write_now(b"after the end"))

    @staticmethod
    def disconnected(receive):
        coroutine = receive()
        try:
            coroutine.send(None)
        except StopIteration as done:
            return done.value["type"] == "http.disconnect"
        finally:
            coroutine.close()
        return False

    @staticmethod
    async def answer(send, status, body):
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@pytest.fixture
def app():
    return Counting()


@pytest.fixture
def port(app):
    with running(app, http=guarded_http_protocol(SHORT), ws="none", timeout_keep_alive=1) as url:
        yield urlsplit(url).port
        # Whatever a test did: the next request works.
        assert ask(port_of(url), GET).startswith(b"HTTP/1.1 200")


def port_of(url):
    return urlsplit(url).port


def connect(port):
    s = socket.create_connection(("127.0.0.1", port))
    s.settimeout(10)
    return s


def read_to_end(s):
    answer = b""
    with contextlib.suppress(ConnectionError):
        while piece := s.recv(65536):
            answer += piece
    return answer


def ask(port, *pieces):
    """All that comes until the server closes the connection."""
    with connect(port) as s:
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                s.sendall(piece)
        return read_to_end(s)


def status_and_error(answer):
    head, body = answer.split(b"\r\n\r\n", 1)
    return int(head.split(b" ")[1]), json.loads(body)["error"]


def test_a_client_that_says_nothing_is_let_go(port):
    assert ask(port) == b""


def test_a_head_that_does_not_end_is_refused(port):
    status, error = status_and_error(ask(port, b"POST /v1/chat/completions HTTP/1.1\r\nHost: "))
    assert status == 408
    assert "0.4 s" in error["message"]


def test_a_head_that_trickles_is_refused_all_the_same(port):
    with connect(port) as s:
        s.sendall(b"GET / HTTP/1.1\r\nX: ")
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 10:
                s.sendall(b"a")
                s.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    answer = s.recv(65536)
                    break
        assert answer.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "garbage",
    [
        bytes.fromhex("16030100f5010000f10303") + bytes(240),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        b"POST /" + HEAD + b"Content-Length: -3\r\n\r\nabc",
        b"POST /" + HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        b"POST /" + HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /\xff\xfe" + HEAD + b"\r\n",
        b"GET /\n\n",
        b"\0" * 100_000,
    ],
    ids=["tls", "http2", "negative-length", "two-lengths", "smuggled", "raw-path", "lf", "zeros"],
)
def test_what_is_no_request_gets_an_error_envelope(port, app, garbage):
    status, error = status_and_error(ask(port, garbage))
    assert status == 400
    assert set(error) == {"message", "type", "param", "code"}
    assert app.seen == []


def test_random_bytes_never_reach_the_application(port, app):
    seed = random.randrange(2**32)
    print("seed", seed)
    source = random.Random(seed)
    for _ in range(20):
        answer = ask(port, bytes([source.randrange(128, 256)]) + source.randbytes(source.randrange(1, 3000)))
        assert answer.startswith(b"HTTP/1.1 400")
    assert app.seen == []


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nX: " + b"a" * 2_000_000,
        b"GET /" + b"a" * 2_000_000,
        b"GET / HTTP/1.1\r\nX: " + b"a" * 8192 + b"\r\n\r\n",
        b"GET /" + HEAD + b"".join(b"X%d: a\r\n" % i for i in range(60)) + b"\r\n",
    ],
    ids=["endless-header", "endless-target", "long-header", "many-headers"],
)
def test_a_head_that_is_too_large_is_refused(port, app, head):
    status, error = status_and_error(ask(port, head))
    assert status == 431
    assert "8192 bytes" in error["message"]
    assert "50 headers" in error["message"]
    assert app.seen == []


def test_a_head_of_nearly_the_limit_is_taken(port):
    assert ask(port, b"GET /" + HEAD + b"Connection: close\r\nX: " + b"a" * 8000 + b"\r\n\r\n").endswith(b"0")


def test_garbage_behind_a_request_is_never_written_into_its_answer(port, app):
    with connect(port) as s:
        s.sendall(b"POST /stream" + HEAD + b"Content-Length: 3\r\n\r\nabc")
        answer = b""
        while b"begun" not in answer:
            answer += s.recv(65536)
        s.sendall(b"\xff\xff garbage")
        assert b"400" not in answer + read_to_end(s)
    assert app.left.wait(10)


def test_garbage_before_an_answer_began_tells_the_application_and_the_client(port, app):
    answer = ask(port, b"POST /" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", b"zz\r\n")
    assert status_and_error(answer)[0] == 400
    assert app.left.wait(10)


def test_a_half_closed_connection_is_a_client_that_left(port, app):
    with connect(port) as s:
        s.sendall(b"GET /stream" + HEAD + b"\r\n")
        assert s.recv(10)
        s.shutdown(socket.SHUT_WR)
        assert app.left.wait(10)


def test_a_client_that_does_not_read_is_given_up(port, app):
    with connect(port) as s:
        s.sendall(b"GET /endless" + HEAD + b"\r\n")
        assert app.left.wait(20)


def test_an_answer_before_the_body_can_be_read_while_the_body_comes(port):
    with connect(port) as s:
        s.sendall(b"POST /early" + HEAD + b"Content-Length: 300000\r\n\r\n" + b"a" * 100_000)
        assert s.recv(65536).startswith(b"HTTP/1.1 413")
        s.sendall(b"a" * 200_000 + b"GET /" + HEAD + b"Connection: close\r\n\r\n")
        assert read_to_end(s).endswith(b"\r\n0")


def test_an_answer_before_the_body_can_be_read_by_who_asked_to_close_too(port):
    with connect(port) as s:
        s.sendall(b"POST /early" + HEAD + b"Connection: close\r\nContent-Length: 9000000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            s.sendall(bytes(9_000_000))
        answer = read_to_end(s)
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"connection: close" in answer


def test_a_body_that_was_answered_already_may_not_come_for_ever(port):
    with connect(port) as s:
        s.sendall(b"POST /early" + HEAD + b"Content-Length: 300000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                s.sendall(b"a")
                time.sleep(0.05)
            pytest.fail("the connection is still open after 10 s")


def test_a_connection_idles_between_requests_only_so_long_after_an_early_answer(port):
    with connect(port) as s:
        s.sendall(b"POST /early" + HEAD + b"Content-Length: 3\r\n\r\n")
        assert s.recv(65536).startswith(b"HTTP/1.1 413")
        s.sendall(b"abc")
        assert s.recv(65536) == b""


def test_trailers_are_not_headers(port, app):
    ask(
        port,
        b"POST /" + HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"3\r\nabc\r\n0\r\nAuthorization: Bearer k\r\n\r\n",
    )
    assert app.seen == ["/"]
    assert b"authorization" not in dict(app.headers)


def test_a_slow_second_head_leaves_the_first_answer_alone(port, app):
    with connect(port) as s:
        s.sendall(b"GET /stream" + HEAD + b"\r\n" + b"GET /")
        time.sleep(1)
        assert not app.left.is_set()


@pytest.mark.parametrize("body", [b"", b"abc"])
def test_offers_of_another_protocol_are_answered_in_this_one(port, body):
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    with connect(port) as s:
        s.sendall(b"POST /" + HEAD + offer + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert s.recv(65536).endswith(b"%d" % len(body))
        s.sendall(b"POST /" + HEAD + b"Connection: close\r\nContent-Length: 5\r\n\r\nabcde")
        assert read_to_end(s).endswith(b"5")


def test_connections_beyond_the_limit_are_told_so(port):
    with contextlib.ExitStack() as held:
        for _ in range(8):
            s = held.enter_context(connect(port))
            s.sendall(b"GET /stream" + HEAD + b"\r\n")
            assert s.recv(10)
        status, error = status_and_error(ask(port))
        assert status == 503
        assert "8 connections" in error["message"]
    deadline = time.monotonic() + 10
    while not ask(port, b"GET /" + HEAD + b"Connection: close\r\n\r\n").startswith(b"HTTP/1.1 200"):
        assert time.monotonic() < deadline


def test_parts_of_an_answer_of_unknown_length_are_written_at_once(app, port):
    said = ask(port, GET.replace(b"/ ", b"/now "))
    head, _, rest = said.partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head.lower()
    body = b""
    while size := int(rest[: rest.index(b"\r\n")], 16):
        begin = rest.index(b"\r\n") + 2
        body += rest[begin : begin + size]
        rest = rest[begin + size + 2 :]
    assert body == b"nnsent" + b"ow" * 20_000 + b"too late" * (1 << 20)
    # not before the head, not nothing, not to a client that has yet to read megabytes, not after the end
    assert app.now == [False, True, True, False, True, True, False, False]


def test_an_answer_of_known_length_has_no_parts_written_into_it(app, port):
    said = ask(port, GET.replace(b"/ ", b"/now-sized "))
    assert said.endswith(b"\r\n\r\nsent")
    assert app.now == [False] * 8
