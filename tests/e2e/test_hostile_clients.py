"""A whole server with garbage, liars, slow and vanishing clients on its port: everybody else is served as if alone."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import struct
import threading
import time
from urllib.parse import urlsplit

import httpx
import pytest

from onnxgen.server.protection.http_protocol import ConnectionLimits, guarded_http_protocol
from onnxgen.server.run import protected_app
from server_doubles import fake_services, running

LIMITS = ConnectionLimits(max_connections=200, head_timeout_s=1, drain_timeout_s=0.5, write_stall_s=1)
SETTINGS = {"enable_admin": True, "max_body_mb": 0.25, "body_timeout_s": 1}
QUESTION = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "hello"}],
    "max_tokens": 12,
    "temperature": 0,
}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    services = fake_services(tmp_path_factory.mktemp("server"), settings=SETTINGS)
    options = {"http": guarded_http_protocol(LIMITS), "ws": "none", "timeout_keep_alive": 2}
    with running(protected_app(services), **options) as base:
        yield base


@pytest.fixture
def source():
    seed = random.randrange(2**32)
    print("seed", seed)
    return random.Random(seed)


def ask(url, **more):
    answer = httpx.post(f"{url}/v1/chat/completions", json={**QUESTION, **more}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"]


def request_of(body, *, path="/v1/chat/completions", **headers):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": len(body), **headers}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def connect(url):
    s = socket.create_connection(("127.0.0.1", urlsplit(url).port))
    s.settimeout(20)
    return s


def sent(s, data):
    with contextlib.suppress(ConnectionError):
        s.sendall(data)
    return s


def read_to_end(s):
    answer = b""
    with contextlib.suppress(ConnectionError):
        while piece := s.recv(65536):
            answer += piece
    return answer


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def wait_for(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass within 30 s"
        time.sleep(0.02)


def num_cancelled(url):
    lines = httpx.get(f"{url}/metrics", timeout=60).text.splitlines()
    counts = [line for line in lines if line.startswith("onnxgen_requests_total") and '"cancelled"' in line]
    return sum(float(line.split()[-1]) for line in counts)


def nothing_runs(url):
    (model,) = httpx.get(f"{url}/v1/admin/models", timeout=60).json()["data"]
    return model["pending"] == 0 and model["uses"] == 0


def mutated(source, data):
    data = bytearray(data)
    for _ in range(source.randrange(1, 6)):
        at = source.randrange(len(data))
        match source.randrange(5):
            case 0:
                data[at] = source.randrange(256)
            case 1:
                del data[at : at + source.randrange(1, 40)]
            case 2:
                data[at:at] = source.randbytes(source.randrange(1, 40))
            case 3:
                data[at:at] = data[source.randrange(len(data)) :][:60]
            case _:
                data = data[: at + 1]
        if not data:
            break
    return bytes(data)


def test_after_any_garbage_the_next_normal_request_works(url, source):
    expected = ask(url)
    valid = request_of({**QUESTION, "stream": True}) + request_of(QUESTION)
    for turn in range(150):
        s = connect(url)
        s.settimeout(0.05)
        match turn % 3:
            case 0:
                sent(s, source.randbytes(source.randrange(1, 5000)))
            case 1:
                sent(s, mutated(source, valid))
            case _:
                sent(s, request_of(source.randbytes(source.randrange(400))))
        with contextlib.suppress(TimeoutError):
            assert b" 500 " not in read_to_end(s).split(b"\r\n")[0]
        match source.randrange(3):
            case 0:
                reset(s)
            case 1:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_WR)
                s.close()
            case _:
                s.close()
        if turn % 15 == 0:
            assert ask(url) == expected
    assert ask(url) == expected
    wait_for(lambda: nothing_runs(url))


def test_a_stream_is_whole_while_others_misbehave(url, source):
    done = threading.Event()

    def misbehave():
        chaos = random.Random(source.randrange(2**32))
        while not done.is_set():
            s = sent(
                connect(url), mutated(chaos, request_of({**QUESTION, "stream": True, "ignore_eos": True}))
            )
            time.sleep(0.005)
            reset(s)

    more = {"max_tokens": 400, "ignore_eos": True}
    expected = ask(url, **more)
    troublemaker = threading.Thread(target=misbehave)
    troublemaker.start()
    try:
        for _ in range(3):
            text, ends, lines = "", [], []
            body = {**QUESTION, **more, "stream": True}
            with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as answer:
                for line in answer.iter_lines():
                    if line.startswith("data: {"):
                        choice = json.loads(line[6:])["choices"][0]
                        text += choice["delta"].get("content") or ""
                        ends += filter(None, [choice["finish_reason"]])
                    lines.append(line)
            assert (text, ends, lines[-2:]) == (expected, ["length"], ["data: [DONE]", ""])
    finally:
        done.set()
        troublemaker.join()


def test_slow_clients_do_not_keep_others_from_being_served(url):
    expected = ask(url)
    with contextlib.ExitStack() as held:
        slow = [held.enter_context(connect(url)) for _ in range(60)]
        for turn, s in enumerate(slow):
            match turn % 3:
                case 0:
                    pass
                case 1:
                    sent(s, b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX: ")
                case _:
                    sent(s, request_of(QUESTION)[:-10])
        assert ask(url) == expected
        answers = [read_to_end(s) for s in slow]
    assert all(answer == b"" for answer in answers[::3])
    assert all(answer.startswith(b"HTTP/1.1 408") for answer in answers[1::3])
    assert all(answer.startswith(b"HTTP/1.1 408") for answer in answers[2::3])
    assert json.loads(answers[2].split(b"\r\n\r\n", 1)[1])["error"]["code"] == "body_timeout"


@pytest.mark.parametrize("leave", [reset, socket.socket.close, lambda s: s.shutdown(socket.SHUT_WR)])
@pytest.mark.parametrize("stream", [False, True])
def test_who_leaves_takes_the_request_along(url, leave, stream):
    before = num_cancelled(url)
    with contextlib.ExitStack() as held:
        for _ in range(4):
            s = held.enter_context(connect(url))
            # Far more than there is time for before it leaves.
            sent(
                s, request_of({**QUESTION, "stream": stream, "max_tokens": 900, "ignore_eos": True, "n": 32})
            )
            wait_for(lambda: not nothing_runs(url))
            leave(s)
            wait_for(lambda: nothing_runs(url))
    assert num_cancelled(url) == before + 4
    assert ask(url)


def test_a_length_that_lies_reaches_nobody(url):
    body = json.dumps(QUESTION).encode()
    for length in (len(body) + 50, len(body) - 5, 0, 10**18, -1, "0x10", "1e3"):
        s = sent(connect(url), request_of(body, **{"Content-Length": length, "Connection": "close"}))
        with s:
            status = read_to_end(s).split(b" ")[1]
        assert status in (b"400", b"408", b"413")
    wait_for(lambda: nothing_runs(url))


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_told_so_while_it_is_sent(url, chunked):
    def pieces():
        for _ in range(64):
            yield bytes(65536)

    content = pieces() if chunked else bytes(4 * 2**20)
    answer = httpx.post(f"{url}/v1/chat/completions", content=content, timeout=60)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "request_too_large"


def test_requests_in_one_packet_are_answered_in_order(url):
    first, second = {**QUESTION, "max_tokens": 3}, {**QUESTION, "max_tokens": 7}
    packet = request_of(first) + request_of(second) + request_of(QUESTION, Connection="close")
    with sent(connect(url), packet) as s:
        answers = read_to_end(s)
    assert answers.count(b"HTTP/1.1 200") == 3
    used = [int(part.split(b",")[0]) for part in answers.split(b'"completion_tokens":')[1:]]
    assert used == [3, 7, 12]
