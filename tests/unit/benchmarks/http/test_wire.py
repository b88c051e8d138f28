from itertools import pairwise

import pytest
from benchmarks.http.wire import AnswerDecoder, EventSplitter, WireError
from hypothesis import given
from hypothesis import strategies as st

from scripted_http_server import HEAD, chunk

PARTS = [b"data: 1\n\n", b"x" * 300, b"\r\n", b"0"]
WHOLE = HEAD + b"".join(map(chunk, PARTS)) + b"0\r\n\r\n"


def _cut(data, places):
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@given(st.lists(st.integers(0, 10**6), max_size=12))
def test_chunks_are_the_same_however_bytes_arrive(places):
    decoder = AnswerDecoder()
    parts = [part for piece in _cut(WHOLE, places) if piece for part in decoder.feed(piece)]
    assert parts == PARTS
    assert decoder.is_whole and decoder.status == 200 and decoder.keeps_connection
    assert decoder.headers["content-type"].startswith("text/event-stream")


def test_a_body_of_known_length_ends_with_it():
    decoder = AnswerDecoder()
    head = b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nConnection: close\r\n\r\n"
    assert decoder.feed(head + b"ab") == [b"ab"] and not decoder.is_whole
    assert decoder.feed(b"cd") == [b"cd"] and decoder.is_whole
    assert decoder.status == 404 and not decoder.keeps_connection


def test_a_body_without_length_ends_with_the_connection():
    decoder = AnswerDecoder()
    assert decoder.feed(b"HTTP/1.0 200 OK\r\n\r\nabc") == [b"abc"]
    assert not decoder.is_whole and not decoder.keeps_connection
    decoder.end()
    assert decoder.is_whole


def test_interim_answers_are_passed_over():
    decoder = AnswerDecoder()
    decoder.feed(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
    assert decoder.status == 204 and decoder.is_whole


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"SSH-2.0-x\r\n\r\n", "no HTTP/1.1 answer"),
        (HEAD + b"zz\r\n", "no size of a chunk"),
        (HEAD + b"2\r\nabcd", "longer than its size"),
        (WHOLE + b"x", "1 bytes came after the last chunk"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", "1 bytes more"),
    ],
)
def test_other_bytes_are_named(data, message):
    with pytest.raises(WireError, match=message):
        AnswerDecoder().feed(data)


@pytest.mark.parametrize("length", [0, 20, len(HEAD) + 8, len(WHOLE) - 1])
def test_a_connection_that_closes_early_is_named(length):
    decoder = AnswerDecoder()
    decoder.feed(WHOLE[:length])
    with pytest.raises(WireError, match=r"closed before its head|closed in its body"):
        decoder.end()


EVENTS = (
    b"data: {}\n\n: still here\n\ndata:two\r\ndata: lines\r\n\r\nevent: x\ndata: smile\n\ndata: cut".replace(
        b"smile", "😀".encode()
    )
)


@given(st.lists(st.integers(0, 10**6), max_size=12))
def test_events_are_the_same_however_bytes_arrive(places):
    splitter = EventSplitter()
    found = [data for piece in _cut(EVENTS, places) for data in splitter.feed(piece)]
    assert found == [b"{}", b"two\nlines", "😀".encode()]
    assert splitter.comments == 1 and splitter.rest == b"data: cut"
