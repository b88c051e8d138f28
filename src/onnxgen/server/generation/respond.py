"""`respond`: one exchange from the model's name to the last byte, whole or streamed, with everything released at its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from onnxgen.facade.results import Completion
from onnxgen.server.errors import as_api_error
from onnxgen.server.generation.answers import Answers
from onnxgen.server.generation.client_watch import asked_model
from onnxgen.server.generation.event_stream import EventStream
from onnxgen.server.generation.large_requests import MAX_TOLD_INLINE
from onnxgen.server.services import Services

if TYPE_CHECKING:
    from onnxgen.server.models.table import LoadedModel

_log = logging.getLogger(__name__)

Open = Callable[["LoadedModel", AsyncExitStack], Awaitable[Answers]]
Whole = Callable[["LoadedModel", list[Completion]], Mapping[str, Any]]
Events = Callable[["LoadedModel", Answers], AsyncGenerator[bytes]]


def error_event(error: BaseException) -> bytes:
    """What a client of OpenAI's API is told when its stream breaks."""
    return b"data: " + to_json(as_api_error(error).body) + b"\n\n"


async def respond(
    http: Request,
    services: Services,
    model_name: str | None,
    *,
    stream: bool,
    open: Open,
    whole: Whole,
    events: Events,
    on_error: Callable[[BaseException], bytes] = error_event,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Answer a request, whole or as a stream.

    Args:
        http: The request, whose body was read.
        services: Of the server.
        model_name: Who is asked; None: the only model.
        stream: Whether the client gets pieces.
        open: Asks; what it needs up to the end of the answer goes onto the stack.
        whole: The body of an answer that is not streamed.
        events: The events of one that is.
        on_error: What a stream says when it breaks.
        headers: Further headers of the answer.

    Raises:
        ApiError: The model is not there, or refuses.
        ClientLeftError: The client left before a stream began.
        OnnxgenError: What asking and answering raises before a stream began.
    """
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(asked_model(http, services, model_name))
        answers = await open(model, stack)
        stack.push_async_callback(answers.aclose)
        if not stream:
            completions = await answers.collect()

            def body() -> bytes:
                return to_json(whole(model, completions))

            is_long = sum(map(_num_told, completions)) > MAX_TOLD_INLINE
            content = await asyncio.to_thread(body) if is_long else body()
            return Response(content, media_type="application/json", headers=dict(headers or {}))
        await answers.first()

        def broken(error: BaseException) -> bytes:
            answers.end(error)
            if as_api_error(error).status == 500:  # why engines end is told once, not for each request
                _log.error("a stream broke", exc_info=error)
            return on_error(error)

        return EventStream(
            events(model, answers),
            keep_alive_s=services.settings.keep_alive_s,
            on_error=broken,
            release=stack.pop_all().aclose,
            headers=headers,
        )


def _num_told(completion: Completion) -> int:
    """How many tokens an answer has log probabilities of."""
    return len(completion.logprobs or ()) + len(completion.prompt_logprobs or ())
