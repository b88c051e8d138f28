"""A server on a real socket that answers each request with bytes that a test chose, for clients that are tested."""

import asyncio
import contextlib
import json
import threading
from dataclasses import dataclass, field

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def chunk(data: bytes) -> bytes:
    """One chunk of a body."""
    return b"%x\r\n" % len(data) + data + b"\r\n"


def event(values) -> bytes:
    """One server-sent event."""
    return b"data: " + (values if isinstance(values, bytes) else json.dumps(values).encode()) + b"\n\n"


def chat_events(pieces, *, prompt_tokens=5, finish="length", identity="a"):
    """Events of a right stream of a chat completion, one token for each piece."""

    def choice(delta, reason=None):
        return {"id": identity, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": len(pieces)}
    return [
        choice({"role": "assistant", "content": ""}),
        *(choice({"content": piece}) for piece in pieces),
        choice({}, finish),
        {"id": identity, "choices": [], "usage": usage},
        b"[DONE]",
    ]


def streamed(events) -> list[bytes]:
    """The answer that a server streams: its head, a chunk for each event, the end."""
    return [HEAD, *(chunk(event(one)) for one in events), b"0\r\n\r\n"]


@dataclass
class ScriptedServer:
    """What it is, and what it was asked.

    Attributes:
        port: Where it listens, on 127.0.0.1.
        bodies: JSON of the requests, in order.
        connections: How many were made.
        most_open: How many were open at once.
    """

    port: int = 0
    bodies: list = field(default_factory=list)
    connections: int = 0
    open: int = 0
    most_open: int = 0


@contextlib.contextmanager
def scripted_server(answer):
    """Run one in a thread.

    Args:
        answer: Given the JSON of a request and its number, gives the pieces to write; None in them closes the connection,
            a number waits so many seconds.
    """
    server, ready, loop = ScriptedServer(), threading.Event(), asyncio.new_event_loop()

    async def serve(reader, writer):
        server.connections += 1
        server.open += 1
        server.most_open = max(server.most_open, server.open)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while await _one(reader, writer):
                    pass
        finally:
            server.open -= 1
            writer.transport.abort()

    async def _one(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        body = await reader.readexactly(int(sizes[0].split(b":")[1])) if sizes else b"null"
        number = len(server.bodies)
        server.bodies.append(json.loads(body))
        for piece in answer(server.bodies[number], number):
            if piece is None:
                return False
            if isinstance(piece, float):
                await asyncio.sleep(piece)
            else:
                writer.write(piece)
                await writer.drain()
        return True

    async def run():
        listening = await asyncio.start_server(serve, "127.0.0.1", 0)
        server.port = listening.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        listening.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)
        await asyncio.sleep(0)  # transports close in the loop's next turn

    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()
