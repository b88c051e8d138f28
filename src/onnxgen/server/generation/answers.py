"""`Answers`: the pieces of a request's answers, for as long as its client is there. `open_answers` asks for them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self

from starlette.requests import Request

from onnxgen.engine.client import HealthState
from onnxgen.errors import EngineDeadError
from onnxgen.facade.results import Chunk, Completion
from onnxgen.server.errors import ApiError, ending
from onnxgen.server.generation.client_watch import interrupt_when_left
from onnxgen.server.generation.interruption import Interruption
from onnxgen.server.generation.outcomes import end_early
from onnxgen.server.services import Services

if TYPE_CHECKING:
    from onnxgen.facade.async_llm import AsyncLLM
    from onnxgen.server.models.table import LoadedModel
    from onnxgen.server.observe.ended import Outcome
    from onnxgen.server.observe.observer import Observed

INLINE_SIZE = 4096
"""Characters of a prompt up to which it is made ready in the event loop: a millisecond or two."""
_LATE_S = 15.0
"""How long an answer may be over its time before it counts as lost; the engine ends it in time where it can."""


async def open_answers(
    http: Request,
    services: Services,
    model: LoadedModel,
    ask: Callable[[AsyncLLM], AsyncGenerator[Chunk]],
    *,
    endpoint: str,
    prompt_size: int,
    stream: bool,
    n: int = 1,
) -> Answers:
    """Ask a model, and watch for a client that leaves.

    Args:
        http: The request, whose body was read.
        services: Of the server.
        model: Who answers; it has to stay loaded until the answers are closed.
        ask: Asks it; called here for short prompts, and in a thread for long ones.
        endpoint: For metrics and logs, such as ``chat.completions``.
        prompt_size: Characters of all prompts together, about.
        stream: Whether the client gets pieces.
        n: Answers to each prompt.

    Returns:
        What must be closed, whatever happens.

    Raises:
        ApiError: The model does not answer, only embeds; or the server is about to end.
        ClientLeftError: The client left meanwhile.
        OnnxgenError: What ``ask`` raises.
    """
    observed = services.observer.begin(
        request_id=request_id_of(http),
        endpoint=endpoint,
        model=model.id,
        stream=stream,
        tenant=tenant_of(http),
        n=n,
    )
    answers = Answers(
        observed,
        receive=http.receive,
        stream_start_s=services.settings.stream_start_s,
        timeout_s=services.settings.request_timeout_s,
    )
    try:
        if services.draining:
            raise ending()
        await answers.begin(model.text, ask, in_thread=prompt_size > INLINE_SIZE)
    except BaseException as error:
        await answers.aclose(error)
        raise
    return answers


class Answers:
    """The pieces of a request's answers, as an asynchronous iterator for one task.

    Iteration raises what the engine refuses or fails with, `ClientLeftError` when the client has gone, and `ApiError`
    504 when the answers are long overdue. Closing ends what has not ended in the engine.

    Args:
        observed: Is told of every piece, and of the end.
        receive: The request's channel, after its body was read.
        stream_start_s: How long `first` waits.
        timeout_s: When answers should have ended; None: there is no limit.

    Attributes:
        outcome: How they ended; None: they have not.
    """

    def __init__(
        self,
        observed: Observed,
        *,
        receive: Callable[[], Awaitable[Any]],
        stream_start_s: float,
        timeout_s: float | None,
    ) -> None:
        self.outcome: Outcome | None = None
        self._observed = observed
        self._interruption = Interruption()
        self._stream_start_s = stream_start_s
        self._chunks: AsyncGenerator[Chunk] | None = None
        self._ahead: asyncio.Task[Chunk] | None = None
        self._listeners: list[Callable[[Chunk], None]] = [observed.piece]
        self._complete = self._closed = False
        self._watch = asyncio.create_task(interrupt_when_left(receive, self._interruption))
        self._timer: asyncio.TimerHandle | None = None
        if timeout_s is not None:
            late = timeout_s + _LATE_S
            overdue = ApiError(504, f"no answer within {late:g} s", type="server_error", code="timeout")
            self._timer = asyncio.get_running_loop().call_later(late, self._interruption.interrupt, overdue)

    async def begin(
        self, llm: AsyncLLM, ask: Callable[[AsyncLLM], AsyncGenerator[Chunk]], *, in_thread: bool
    ) -> None:
        """Ask. For `open_answers`.

        Raises:
            OnnxgenError: What ``ask`` raises.
            EngineDeadError: The engine died meanwhile: who asked before that is told, and does not wait for a new one.
        """
        with self._interruption:
            self._chunks = await asyncio.to_thread(ask, llm) if in_thread else ask(llm)
        if llm.health.state is not HealthState.HEALTHY:
            raise EngineDeadError("the engine failed while the prompt was made ready")

    def listen(self, hear: Callable[[Chunk], None]) -> None:
        """Have a function called with each piece, before whoever iterates gets it."""
        self._listeners.append(hear)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        try:
            with self._interruption:
                chunk = await self._next()
        except StopAsyncIteration:
            self._complete = True
            self.end(None)
            raise
        except Exception as error:
            self.end(error)
            raise
        for hear in self._listeners:
            hear(chunk)
        return chunk

    async def first(self) -> None:
        """Wait for the first piece, or a moment if that is sooner: what is refused is refused here.

        Raises:
            OnnxgenError: What iteration would have raised.
        """
        self._ahead = ahead = asyncio.create_task(self._pull())
        try:
            with self._interruption:
                await asyncio.wait((ahead,), timeout=self._stream_start_s)
        except Exception as error:
            self.end(error)
            raise
        if ahead.done() and not ahead.cancelled() and (error := ahead.exception()) is not None:
            self._ahead = None
            if not isinstance(error, StopAsyncIteration):
                self.end(error)
                raise error

    async def collect(self) -> list[Completion]:
        """All answers, by index, for clients that get no pieces.

        Raises:
            OnnxgenError: What iteration raises.
        """
        found = {chunk.index: chunk.completion async for chunk in self if chunk.completion is not None}
        return [found[index] for index in sorted(found)]

    async def aclose(self, error: BaseException | None = None) -> None:
        """End what has not ended. Calling it twice is harmless.

        Args:
            error: What went wrong elsewhere, which ended the answers.
        """
        if self._closed:
            return
        self._closed = True
        self._watch.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self.end(error or self._interruption.reason)
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.wait((self._ahead,))
        if self._chunks is not None:
            await self._chunks.aclose()

    def _next(self) -> Awaitable[Chunk]:
        ahead, self._ahead = self._ahead, None
        assert self._chunks is not None
        return anext(self._chunks) if ahead is None else ahead

    async def _pull(self) -> Chunk:
        assert self._chunks is not None
        return await anext(self._chunks)

    def end(self, error: BaseException | None) -> None:
        """Tell the observer how it ended; only the first time counts.

        Args:
            error: What ended it; None: whoever asked wants no more.
        """
        if self.outcome is not None:
            return
        if self._complete:
            self.outcome = "ok"
            self._observed.end("ok", status=200)
        else:
            self.outcome = end_early(self._observed, error)


def request_id_of(http: Request) -> str:
    """The request's id, as logs have it."""
    found = getattr(http.state, "request_id", None)
    if not isinstance(found, str):  # of an application without protection, which gives ids
        found = http.state.request_id = uuid.uuid4().hex
    return found


def tenant_of(http: Request) -> str:
    """Whose key came with the request; empty where none is asked for."""
    found = getattr(http.state, "tenant", None)
    return found if isinstance(found, str) else ""
