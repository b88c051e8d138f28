"""`/v1/completions`."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from onnxgen.facade.results import Chunk, Completion
from onnxgen.server.generation.answers import Answers, open_answers, request_id_of, tenant_of
from onnxgen.server.generation.completion_answer import completion_choices
from onnxgen.server.generation.completion_ask import CompletionAsk
from onnxgen.server.generation.completion_events import CompletionEvents
from onnxgen.server.generation.fingerprint import system_fingerprint
from onnxgen.server.generation.large_requests import read_request
from onnxgen.server.generation.options import texts_size
from onnxgen.server.generation.respond import respond
from onnxgen.server.generation.unknown_fields import log_unknown_fields
from onnxgen.server.generation.usage import timings_of, usage_of
from onnxgen.server.json_bodies import JsonRoute
from onnxgen.server.schemas.completions import CompletionRequest, TextCompletion
from onnxgen.server.services import Services, services_of

if TYPE_CHECKING:
    from onnxgen.facade.async_llm import AsyncLLM
    from onnxgen.server.models.table import LoadedModel

router = APIRouter(route_class=JsonRoute, tags=["completions"])

_STREAM = {"description": "The answers, or with `stream` their chunks.", "content": {"text/event-stream": {}}}


@router.post("/v1/completions", responses={200: {"model": TextCompletion, **_STREAM}})
async def create_completion(http: Request, fields: CompletionRequest) -> Response:
    """Go on with prompts as they are, or only judge them: `echo` with `logprobs` and `max_tokens` 0."""
    services = services_of(http)
    log_unknown_fields(fields, services.unknown_fields)
    ask = await read_request(http, lambda: CompletionAsk.read(fields, services.settings))
    asked = _Completions(http, services, ask)
    return await respond(
        http,
        services,
        fields.model,
        stream=fields.wants_stream,
        open=asked.open,
        whole=asked.whole,
        events=asked.events,
    )


class _Completions:
    """One request.

    Args:
        http: As it came.
        services: Of the server.
        ask: What it asks.
    """

    def __init__(self, http: Request, services: Services, ask: CompletionAsk) -> None:
        self._http, self._services, self._ask = http, services, ask
        self._id, self._created = f"cmpl-{uuid.uuid4().hex}", int(services.now())

    async def open(self, model: LoadedModel, stack: AsyncExitStack) -> Answers:
        """Ask the model."""
        ask, http, settings = self._ask, self._http, self._services.settings
        options = ask.options(model, settings)

        def complete(llm: AsyncLLM) -> AsyncGenerator[Chunk]:
            return ask.ask(
                llm,
                options,
                priority=ask.fields.priority or 0,
                tenant=tenant_of(http),
                salt=ask.fields.cache_salt,
                name=request_id_of(http),
            )

        return await open_answers(
            http,
            self._services,
            model,
            complete,
            endpoint="completions",
            prompt_size=ask.size + texts_size(options),
            stream=ask.fields.wants_stream,
            n=ask.num_made,
        )

    def whole(self, model: LoadedModel, completions: list[Completion]) -> TextCompletion:
        """The answers that are not streamed."""
        ask = self._ask
        body: TextCompletion = self._head(model)
        body["choices"] = completion_choices(ask, completions, model.text.tokenizer)
        body["usage"] = usage_of(completions, n=ask.num_made)
        if len(completions) == 1:
            body["timings"] = timings_of(completions[0])
        return body

    def events(self, model: LoadedModel, answers: Answers) -> AsyncGenerator[bytes]:
        """The events of those that are."""
        return CompletionEvents(self._ask, self._head(model), model.text.tokenizer).stream(answers)

    def _head(self, model: LoadedModel) -> Any:
        return {
            "id": self._id,
            "object": "text_completion",
            "created": self._created,
            "model": model.id,
            "system_fingerprint": system_fingerprint(model),
        }
