"""`EventStream`: events go out at once, in order, and what cannot be sent waits within bounds."""

import asyncio
import random

import pytest

from chat_server import WAIT_S
from onnxgen.server.generation import event_stream
from onnxgen.server.generation.client_watch import ClientLeftError
from onnxgen.server.generation.event_stream import KEEP_ALIVE, EventStream
from onnxgen.server.write_now import offer_writer


class Socket:
    """What is sent, and how."""

    def __init__(self, *, before=None):
        self.sent, self.before = [], before

    async def send(self, message):
        if self.before is not None:
            await self.before(self)
        self.sent.append(message)

    @property
    def bodies(self):
        return [message["body"] for message in self.sent if message["type"] == "http.response.body"]

    @property
    def headers(self):
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}


def told(error):
    return f"error: {error}\n\n".encode()


async def never():
    raise AssertionError("the stream reads nothing")


async def streamed(events, socket, *, write_now=None, **options):
    """Send a stream; it leaves nothing behind."""
    released, before = [], asyncio.all_tasks()

    async def release():
        released.append(True)

    scope = {"type": "http"}
    if write_now is not None:
        offer_writer(scope, write_now)
    stream = EventStream(events, **{"keep_alive_s": WAIT_S, "on_error": told, "release": release, **options})
    try:
        async with asyncio.timeout(WAIT_S):
            await stream(scope, never, socket.send)
    finally:
        assert released == [True]
        assert asyncio.all_tasks() == before


def test_events_of_one_moment_go_out_in_one_write():
    async def events():
        yield b"a"
        yield b"b"
        for _ in range(5):
            await asyncio.sleep(0)
        yield b"c"

    async def work():
        socket = Socket()
        await streamed(events(), socket, headers={"X-Session-Id": "s"})
        assert socket.bodies == [b"ab", b"c", b""]
        assert [m.get("more_body") for m in socket.sent[1:]] == [True, True, False]
        assert socket.sent[0]["status"] == 200
        assert socket.headers == {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-cache, no-transform",
            "x-accel-buffering": "no",
            "x-session-id": "s",
        }

    asyncio.run(work())


@pytest.mark.parametrize("write_now", [None, lambda body: False])
def test_an_event_that_says_nothing_does_not_end_the_stream(write_now):
    async def events():
        for event in (b"", b"a", b"", b"b"):
            yield event
            for _ in range(5):
                await asyncio.sleep(0)

    async def work():
        socket = Socket()
        await streamed(events(), socket, write_now=write_now)
        assert socket.bodies == [b"a", b"b", b""]

    asyncio.run(work())


def test_a_client_that_keeps_up_gets_events_past_asgi():
    async def events():
        yield b"a"
        yield b"b"
        for _ in range(5):
            await asyncio.sleep(0)
        yield b"c"
        for _ in range(5):
            await asyncio.sleep(0)

    async def work():
        socket, written = Socket(), []

        def write_now(body):
            written.append(body)
            return True

        await streamed(events(), socket, write_now=write_now)
        assert written == [b"ab", b"c"]
        assert socket.bodies == [b""]
        assert socket.sent[-1]["more_body"] is False

    asyncio.run(work())


def test_no_event_is_lost_or_overtaken_by_a_client_that_keeps_up_at_times():
    seed = random.randrange(2**32)
    print("seed", seed)
    source = random.Random(seed)
    made = [f"{number} ".encode() for number in range(500)]

    async def moments():
        for _ in range(source.choice((0, 0, 1, 2, 5))):
            await asyncio.sleep(0)

    async def events():
        for event in made:
            yield event
            await moments()

    async def work():
        went_out, ways = [], set()

        async def send(message):
            body = message.get("body", b"")
            await moments()
            went_out.append(body)
            ways.add("send")

        def write_now(body):
            if source.random() < 0.5:
                return False
            went_out.append(body)
            ways.add("now")
            return True

        socket = Socket()
        socket.send = send
        await streamed(events(), socket, write_now=write_now)
        assert b"".join(went_out) == b"".join(made)
        assert ways == {"send", "now"}

    asyncio.run(work())


def test_silence_is_broken_past_asgi_too():
    async def work():
        socket, written = Socket(), []

        async def events():
            while written.count(KEEP_ALIVE) < 2:
                await asyncio.sleep(0.001)
            yield b"a"

        def write_now(body):
            written.append(body)
            return True

        await streamed(events(), socket, write_now=write_now, keep_alive_s=0.01)
        assert b"".join(written + socket.bodies).replace(KEEP_ALIVE, b"") == b"a"

    asyncio.run(work())


def test_silence_is_broken_by_comments():
    async def work():
        socket = Socket()

        async def events():
            while socket.bodies.count(KEEP_ALIVE) < 2:
                await asyncio.sleep(0.001)
            yield b"a"

        await streamed(events(), socket, keep_alive_s=0.01)
        assert socket.bodies[:2] == [KEEP_ALIVE, KEEP_ALIVE]
        assert [body for body in socket.bodies if body != KEEP_ALIVE] == [b"a", b""]

    asyncio.run(work())


def test_an_error_is_the_last_event():
    async def events():
        yield b"a"
        raise ValueError("broke")

    async def work():
        socket = Socket()
        await streamed(events(), socket)
        assert b"".join(socket.bodies) == b"aerror: broke\n\n"
        assert socket.sent[-1]["more_body"] is False

    asyncio.run(work())


def test_nothing_is_said_to_a_client_that_left():
    async def events():
        yield b"a"
        raise ClientLeftError

    async def work():
        socket = Socket()
        await streamed(events(), socket)
        assert b"".join(socket.bodies) == b"a"

    asyncio.run(work())


def test_what_waits_for_a_slow_client_is_bounded(monkeypatch):
    monkeypatch.setattr(event_stream, "MAX_WAITING_BYTES", 100)
    size, most = 30, 0

    async def work():
        nonlocal most
        made = 0

        async def events():
            nonlocal made
            for _ in range(50):
                made += 1
                yield b"x" * size

        async def slowly(socket):
            nonlocal most
            await asyncio.sleep(0.001)
            most = max(most, made * size - sum(map(len, socket.bodies)))

        socket = Socket(before=slowly)
        await streamed(events(), socket)
        assert b"".join(socket.bodies) == b"x" * size * 50

    asyncio.run(work())
    assert 100 < most <= 3 * (100 + size)  # what is being sent, what waits, and one event


def test_a_client_that_reads_nothing_is_given_up():
    closed = []

    async def events():
        try:
            while True:
                yield b"x" * 1000
        finally:
            closed.append(True)

    async def blocked(socket):
        if len(socket.sent) == 3:
            await asyncio.Event().wait()

    async def work():
        socket = Socket(before=blocked)
        await streamed(events(), socket, stall_timeout_s=0.05)
        assert socket.sent[-1]["more_body"]

    asyncio.run(work())
    assert closed == [True]


def test_a_socket_that_breaks_ends_the_stream():
    closed = []

    async def events():
        try:
            while True:
                yield b"x"
                await asyncio.sleep(0)
        finally:
            closed.append(True)

    async def breaks(socket):
        if len(socket.sent) == 3:
            raise OSError("broken pipe")

    asyncio.run(streamed(events(), Socket(before=breaks)))
    assert closed == [True]


def test_a_cancelled_stream_closes_its_events():
    closed = []

    async def events():
        try:
            yield b"x"
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async def work():
        socket = Socket()
        task = asyncio.create_task(streamed(events(), socket))
        while not socket.bodies:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    assert closed == [True]
