import asyncio

from benchmarks.http.answers import read_answer
from benchmarks.http.client import Client

from scripted_http_server import HEAD, chat_events, chunk, event, scripted_server, streamed

RIGHT = streamed(chat_events(["a", "b", "c"]))


def _ask(server, times=1, **options):
    async def ask():
        with Client("127.0.0.1", server.port, key="secret") as client:
            return [await client.ask("/v1/chat/completions", b"{}", **options) for _ in range(times)]

    return asyncio.run(ask())


def test_events_come_with_their_times_over_one_connection():
    with scripted_server(lambda body, number: RIGHT) as server:
        exchanges = _ask(server, times=3)
    assert [read_answer(exchange).text for exchange in exchanges] == ["abc"] * 3
    assert [read_answer(exchange).problems for exchange in exchanges] == [[]] * 3
    assert server.connections == 1
    for exchange in exchanges:
        assert exchange.sent_s <= exchange.event_s[0] <= exchange.event_s[-1] <= exchange.ended_s
        assert len(exchange.event_s) == len(exchange.events)


def test_a_get_without_stream_has_a_body():
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

    async def ask(port):
        with Client("127.0.0.1", port) as client:
            return await client.ask("/health")

    with scripted_server(lambda body, number: [answer]) as server:
        exchange = asyncio.run(ask(server.port))
    assert (exchange.status, exchange.body, exchange.events, exchange.failure) == (200, b"{}", [], None)


def test_a_stream_that_breaks_off_is_a_failure():
    with scripted_server(lambda body, number: [*RIGHT[:3], None]) as server:
        (exchange,) = _ask(server)
    assert "closed early" in exchange.failure and len(exchange.events) == 2


def test_a_connection_that_was_closed_meanwhile_is_made_again():
    with scripted_server(lambda body, number: [*RIGHT, None]) as server:
        exchanges = _ask(server, times=2)
    assert [exchange.failure for exchange in exchanges] == [None, None]
    assert server.connections == 2


def test_an_answer_that_never_ends_is_a_failure():
    with scripted_server(lambda body, number: [*RIGHT[:3], 30.0]) as server:
        (exchange,) = _ask(server, timeout_s=0.2)
    assert exchange.failure == "no end within 0.2 s" and len(exchange.events) == 2


def test_who_leaves_closes_the_connection():
    with scripted_server(lambda body, number: [*RIGHT[:3], 0.3, *RIGHT[3:]]) as server:
        exchanges = _ask(server, times=2, leave_after=2)
    assert all(exchange.left and exchange.failure is None for exchange in exchanges)
    assert server.connections == 2


def test_a_closed_port_is_a_failure():
    with scripted_server(lambda body, number: RIGHT) as server:
        pass
    (exchange,) = _ask(server)
    assert exchange.status is None and "refused" in exchange.failure.lower()


def test_comments_are_counted_and_are_no_events():
    answer = [
        HEAD,
        chunk(b": wait\n\n: wait\n\n"),
        *(chunk(event(one)) for one in chat_events(["x"])),
        b"0\r\n\r\n",
    ]
    with scripted_server(lambda body, number: answer) as server:
        (exchange,) = _ask(server)
    assert exchange.comments == 2 and read_answer(exchange).problems == []
