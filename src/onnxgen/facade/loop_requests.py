"""Requests of an event loop on an engine that runs elsewhere: `OneLoop`, its `LoopRequests`, and a `Stream` for some of them."""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from onnxgen.engine.client import EngineClient
from onnxgen.engine.events import EngineEvent
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import OnnxgenError, StateError
from onnxgen.facade.answer import Answer
from onnxgen.facade.answers import Answers
from onnxgen.facade.results import Chunk


class LoopRequests:
    """Takes what an engine says, in its thread, to the event loop whose tasks wait for it: once a step.

    Everything but calling it happens in the loop.

    Args:
        loop: The running loop.
        client: The engine.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, client: EngineClient) -> None:
        self.loop = loop
        self._client = client
        self._places: dict[int, _Place] = {}

    def __call__(self, events: Sequence[EngineEvent]) -> None:
        """Hear what a step did."""
        try:
            self.loop.call_soon_threadsafe(self._hear, events)
        except RuntimeError:  # the loop is closed: nobody waits any more
            for request_id in {event.request_id for event in events}:
                self._client.cancel(request_id)

    def submit(self, stream: Stream, request: EngineRequest, *, first: int) -> int:
        """Ask for answers, of which the first has index ``first`` in the stream.

        Raises:
            OnnxgenError: See `EngineClient.submit_soon`.
        """
        # what is heard of it comes to the loop after this call, which runs there
        request_id = self._client.submit_soon(request, self)
        self._places[request_id] = _Place(stream, first)
        return request_id

    def stop(self, request_id: int, index: int) -> None:
        """A stop text ended a sample."""
        self._client.cancel(request_id, index=index, reason="stop")

    def drop(self, request_ids: Sequence[int]) -> None:
        """Nobody waits for these requests any more."""
        for request_id in request_ids:
            self._client.cancel(request_id)
            self._places.pop(request_id, None)

    def abandon(self) -> None:
        """The loop is closed: nobody waits for anything."""
        self.drop(list(self._places))

    def _hear(self, events: Sequence[EngineEvent]) -> None:
        for event in events:
            place = self._places.get(event.request_id)
            if place is not None:
                place.stream.hear(event, place.first + event.index)


class OneLoop:
    """Which event loop may use an engine: the first that asks, and another once that one is closed.

    Args:
        client: The engine.
    """

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._lock = Lock()
        self._bound: LoopRequests | None = None

    def requests(self) -> LoopRequests:
        """The running loop's.

        Raises:
            StateError: Another loop uses the engine.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            bound = self._bound
            if bound is not None and bound.loop is loop:
                return bound
            if bound is not None and not bound.loop.is_closed():
                raise StateError(
                    "this AsyncLLM is used by another event loop; give each loop its own, or use LLM, which threads may share"
                )
            if bound is not None:
                bound.abandon()
            self._bound = LoopRequests(loop, self._client)
            return self._bound


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the samples of a request belong."""

    stream: Stream
    first: int


class Stream:
    """The pieces of some answers, in the order in which they come. For one task of the loop.

    Args:
        requests: Of the loop.
        answers: Fresh ones, by index.
    """

    def __init__(self, requests: LoopRequests, answers: Sequence[Answer]) -> None:
        self._requests = requests
        self._answers = Answers(answers, stop=self._stop)
        self._ready: deque[Chunk | OnnxgenError] = deque()
        self._news: asyncio.Future[None] | None = None
        self._request_ids: list[int] = []

    def submit(self, request: EngineRequest, *, first: int) -> None:
        """Ask for answers, of which the first has index ``first``.

        Raises:
            OnnxgenError: See `EngineClient.submit_soon`.
        """
        self._request_ids.append(self._requests.submit(self, request, first=first))

    async def next(self) -> Chunk | None:
        """The next piece; None after the last.

        Raises:
            OnnxgenError: What one of the requests ended with.
        """
        while not self._ready:
            if self._answers.all_ended:
                return None
            # much cheaper than an Event, and there is one wait for each token of each stream
            self._news = self._requests.loop.create_future()
            await self._news
        piece = self._ready.popleft()
        if isinstance(piece, OnnxgenError):
            # a copy: streams that end with the same error would hang their tracebacks on one object
            raise copy.copy(piece) from piece.__cause__
        return piece

    def close(self) -> None:
        """End what has not ended."""
        self._requests.drop(self._request_ids)
        self._request_ids = []

    def hear(self, event: EngineEvent, index: int) -> None:
        """Something happened to the answer with this index."""
        piece = self._answers.hear(event, index)
        if piece is not None:
            self._ready.append(piece)
        is_news = piece is not None or self._answers.all_ended
        if is_news and self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _stop(self, event: EngineEvent) -> None:
        self._requests.stop(event.request_id, event.index)
