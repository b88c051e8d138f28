"""`Observer`: is told of every request; `Observed`: one of them, from its beginning to its end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence, Sized
from typing import Protocol

from onnxgen.facade.daemon_work import in_daemon
from onnxgen.facade.results import Chunk
from onnxgen.server.observe.context import CURRENT
from onnxgen.server.observe.ended import EndedRequest, Outcome
from onnxgen.server.observe.engine_metrics import EngineMetrics, StatusTable
from onnxgen.server.observe.listener import RequestListener
from onnxgen.server.observe.metrics import Metrics
from onnxgen.server.observe.recent_requests import RecentRequests
from onnxgen.server.observe.watch import EngineWatch, WatchedModels

_LAST_WORDS_S = 5.0


class ObservedModels(WatchedModels, StatusTable, Protocol):
    """What an observer asks of the table of models."""


class Observer:
    """Is told of every request, counts it, and tells others; watches engines. For the server's event loop.

    Args:
        metrics: Where it counts; None: fresh ones.
        listeners: Are told as well.
        statistics_s: Seconds between lines of statistics; 0: none.
        clock: Seconds from any beginning; the engine's clock, so that one trace can show both.

    Attributes:
        metrics: Where it counts.
        recent: Requests that ended last, and those that have not.
        watch: The last numbers of engines; None before `start`.
    """

    def __init__(
        self,
        *,
        metrics: Metrics | None = None,
        listeners: Sequence[RequestListener] = (),
        statistics_s: float = 10.0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.metrics = Metrics() if metrics is None else metrics
        self.recent = RecentRequests()
        self.listeners: tuple[RequestListener, ...] = (self.recent, *listeners)
        self.clock = clock
        self.watch: EngineWatch | None = None
        self._statistics_s = statistics_s

    def start(self, models: ObservedModels, *, sessions: Sized | None = None) -> None:
        """Begin to ask the engines of models what they count, in the running loop.

        Args:
            models: The same ones whenever it is called.
            sessions: Conversations that the server keeps, likewise.
        """
        if self.watch is None:
            self.watch = EngineWatch(models, statistics_s=self._statistics_s, clock=self.clock)
            self.metrics.add(EngineMetrics(self.watch, models))
            if sessions is not None:
                self.metrics.gauge(
                    "onnxgen_sessions", "Conversations that the server keeps.", lambda: len(sessions)
                )
        self.watch.start()

    async def aclose(self) -> None:
        """Ask no more, and let listeners send what they have. Calling it twice is harmless."""
        if self.watch is not None:
            await self.watch.aclose()
        with contextlib.suppress(TimeoutError):  # what cannot be sent by then is lost
            async with asyncio.timeout(_LAST_WORDS_S):
                for listener in self.listeners:
                    await in_daemon(listener.close, discard=lambda _: None)

    def begin(
        self, *, request_id: str, endpoint: str, model: str, stream: bool, tenant: str, n: int = 1
    ) -> Observed:
        """A request begins; `Observed.end` must be called, whatever becomes of it.

        Args:
            request_id: As in the header ``X-Request-Id``.
            endpoint: Such as ``chat.completions``; one of a few.
            model: The served id, never what a client made up.
            stream: Whether the answer comes in pieces.
            tenant: Name of the key that asks.
            n: Answers to each prompt, which share its tokens.
        """
        current = CURRENT.get()
        if current is not None:
            current.observed = True
        return Observed(
            self, request_id=request_id, endpoint=endpoint, model=model, stream=stream, tenant=tenant, n=n
        )


class Observed:
    """A request from its beginning to its end. Made by `Observer.begin`.

    Attributes:
        request_id: See `Observer.begin`.
        endpoint: See `Observer.begin`.
        model: See `Observer.begin`.
        stream: See `Observer.begin`.
        tenant: See `Observer.begin`.
        began_s: When it began, on the observer's clock.
        first_s: When the first token came; None: none came yet.
        completion_tokens: Tokens that came so far.
    """

    __slots__ = (
        "_cached_tokens",
        "_clock",
        "_ended",
        "_flow",
        "_in_progress",
        "_last_s",
        "_n",
        "_observer",
        "_prompt_tokens",
        "_queued_s",
        "_reasons",
        "_usage_told",
        "began_s",
        "completion_tokens",
        "endpoint",
        "first_s",
        "model",
        "request_id",
        "stream",
        "tenant",
    )

    def __init__(
        self,
        observer: Observer,
        *,
        request_id: str,
        endpoint: str,
        model: str,
        stream: bool,
        tenant: str,
        n: int,
    ) -> None:
        self.request_id, self.endpoint, self.model = request_id, endpoint, model
        self.stream, self.tenant = stream, tenant
        self._observer, self._n, self._clock = observer, n, observer.clock
        self.completion_tokens = 0
        self._prompt_tokens: int | None = None
        self._cached_tokens = 0
        self._usage_told = self._ended = False
        self._queued_s: float | None = None
        self.first_s: float | None = None
        self._last_s: dict[int, float] = {}
        self._reasons: dict[int, str] = {}
        metrics = observer.metrics
        # looked up once: a piece costs no more than a clock and a few additions
        self._flow = metrics.tokens.of(model)
        self._in_progress = metrics.in_progress.labels(endpoint, model)
        self._in_progress.inc()
        self.began_s = self._clock()
        for listener in observer.listeners:
            listener.began(self)

    def usage(self, *, prompt_tokens: int, cached_tokens: int = 0) -> None:
        """Say how long the prompts are, all together, where that is known before the answers end or there are none."""
        self._prompt_tokens, self._cached_tokens = prompt_tokens, cached_tokens
        self._usage_told = True

    def piece(self, chunk: Chunk) -> None:
        """A piece of an answer came."""
        count = len(chunk.token_ids)
        if count:
            now, index = self._clock(), chunk.index
            last = self._last_s.get(index)
            if last is not None:
                self._flow.passed((now - last) / count)
            elif self.first_s is None:
                self.first_s = now
                self._observer.metrics.first_token_s.labels(self.model).observe(now - self.began_s)
            self._last_s[index] = now
            self.completion_tokens += count
            self._flow.num_tokens += count
        if chunk.completion is not None:
            self._answered(chunk)

    def end(self, outcome: Outcome, *, status: int, error: BaseException | None = None) -> None:
        """The request ended; only the first time counts.

        Args:
            outcome: How.
            status: The HTTP status of its answer, or the one it would have had.
            error: What ended it.
        """
        if self._ended:
            return
        self._ended = True
        self._in_progress.dec()
        ended = EndedRequest(
            request_id=self.request_id,
            endpoint=self.endpoint,
            model=self.model,
            stream=self.stream,
            tenant=self.tenant,
            outcome=outcome,
            status=status,
            began_s=self.began_s,
            queued_s=self._queued_s,
            first_s=self.first_s,
            ended_s=self._clock(),
            prompt_tokens=self._prompt_tokens,
            cached_tokens=self._cached_tokens,
            completion_tokens=self.completion_tokens,
            finish_reasons=tuple(self._reasons[index] for index in sorted(self._reasons)),
            error=None if error is None else type(error).__name__,
        )
        self._observer.metrics.ended(ended)
        for listener in self._observer.listeners:
            listener.ended(self, ended)

    def _answered(self, chunk: Chunk) -> None:
        """An answer is whole: what the engine says of its prompt counts once for each prompt."""
        assert chunk.completion is not None
        self._reasons[chunk.index] = chunk.completion.finish_reason
        if self._usage_told or chunk.index % self._n:
            return
        usage = chunk.completion.usage
        queued_s = chunk.completion.timings.queue_s
        if queued_s is not None:
            self._queued_s = max(queued_s, self._queued_s or 0.0)
        self._prompt_tokens = (self._prompt_tokens or 0) + usage.prompt_tokens
        self._cached_tokens += usage.cached_tokens
