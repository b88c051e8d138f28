"""`/v1/responses`: answers in the words of OpenAI's Responses API, which the next request can go on from."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from pydantic_core import PydanticSerializationError, to_json

from onnxgen.errors import ContextLengthError
from onnxgen.facade.results import Chunk, Completion
from onnxgen.server.errors import ApiError, as_api_error
from onnxgen.server.formats.conversations import shortened, with_system
from onnxgen.server.formats.event_text import event_text
from onnxgen.server.formats.response_items import Item, chat_messages, check_media, read_items
from onnxgen.server.formats.response_object import begun_response
from onnxgen.server.formats.response_store import StoredResponse
from onnxgen.server.formats.response_tools import chat_response_format, chat_tool_choice, chat_tools
from onnxgen.server.formats.responses_answer import ResponseWriter
from onnxgen.server.generation.answers import Answers, tenant_of
from onnxgen.server.generation.ask import ChatAsk, ask_tokens, open_chat
from onnxgen.server.generation.client_watch import asked_model
from onnxgen.server.generation.counts import check_count
from onnxgen.server.generation.large_requests import read_request
from onnxgen.server.generation.messages import media_check, normalized_messages
from onnxgen.server.generation.options import generation_options
from onnxgen.server.generation.prompt_options import prompt_options
from onnxgen.server.generation.respond import respond
from onnxgen.server.generation.unknown_fields import log_unknown_fields
from onnxgen.server.json_bodies import JsonRoute
from onnxgen.server.schemas.responses import InputTokens, ResponseObject, ResponseRequest
from onnxgen.server.services import Services, services_of

if TYPE_CHECKING:
    from onnxgen.server.models.table import LoadedModel

router = APIRouter(route_class=JsonRoute, prefix="/v1/responses", tags=["responses"])

_STREAM = {"description": "The response, or with `stream` its events.", "content": {"text/event-stream": {}}}


@router.post("", responses={200: {"model": ResponseObject, **_STREAM}}, summary="Make a response")
async def create(http: Request, asked: ResponseRequest) -> Response:
    """Answer a conversation, as a list of items or as a stream of events.

    Responses are kept in memory, as many as the operator allows, unless `store` is false.
    """
    exchange = _Exchange(http, services_of(http), asked)
    return await respond(
        http,
        exchange.services,
        asked.model,
        stream=asked.wants_stream,
        open=exchange.open,
        whole=exchange.whole,
        events=exchange.events,
        on_error=exchange.broken,
    )


@router.post("/input_tokens", summary="Count the tokens of a prompt")
async def count_tokens(http: Request, asked: ResponseRequest) -> InputTokens:
    """Count the tokens that a response would answer, without making it."""
    exchange = _Exchange(http, services_of(http), asked)
    async with asked_model(http, exchange.services, asked.model) as model:
        ask = await exchange.ask(model)
        return InputTokens(input_tokens=await asyncio.to_thread(ask_tokens, model, ask))


class _Exchange:
    """One request, from what it says to the response.

    Args:
        http: The request.
        services: Of the server.
        asked: What it says.

    Raises:
        ApiError: It says something that cannot be done here.
    """

    def __init__(self, http: Request, services: Services, asked: ResponseRequest) -> None:
        log_unknown_fields(asked, services.unknown_fields)
        _refuse_what_is_not_here(asked)
        self.services = services
        self._http, self._asked, self._tenant = http, asked, tenant_of(http)
        self._items = self._earlier()
        self._writer: ResponseWriter | None = None
        self._num_bytes = 0

    async def ask(self, model: LoadedModel) -> ChatAsk:
        """What the model is asked.

        Raises:
            ApiError: Naming the field that is at fault.
        """
        return await read_request(self._http, lambda: self._read(model))

    def _read(self, model: LoadedModel) -> ChatAsk:
        """What the model is asked, and the items that say so.

        Raises:
            ApiError: Naming the field that is at fault.
        """
        asked, settings = self._asked, self.services.settings
        new = self._new_items()
        check_media(new, media_check(settings, model))
        self._items = [*self._items, *new]
        messages = with_system(asked.instructions, chat_messages(self._items))
        tools = asked.tools or []
        check_count("tools", tools, settings.max_tools)
        choice, told = chat_tool_choice(asked.tool_choice, chat_tools(tools))
        form = chat_response_format(None if asked.text is None else asked.text.format)
        if form is not None and asked.response_format is not None:
            raise ApiError(400, "text.format and response_format both say what the text must be like; give one", param="response_format")  # fmt: skip
        fields = asked if form is None else asked.model_copy(update={"response_format": form})
        # a bound, unlike max_tokens of chat: what the context leaves may be less
        options = generation_options(fields, model=model, settings=settings).with_changes({"allow_cap": True})
        return ChatAsk(
            messages=normalized_messages(
                messages, max_messages=settings.max_messages, media=None, name="input"
            ),
            tools=told or None,
            options=options,
            prompt_options=prompt_options(
                model=model,
                settings=settings,
                reasoning_effort=None if asked.reasoning is None else asked.reasoning.effort,
                template_variables=asked.chat_template_kwargs,
                tool_choice=choice,
                parallel_tool_calls=asked.parallel_tool_calls,
            ),
            priority=asked.priority or 0,
            tenant=self._tenant,
            salt=asked.cache_salt,
            stream=asked.wants_stream,
        )

    async def open(self, model: LoadedModel, stack: AsyncExitStack) -> Answers:
        """Ask the model."""
        asked = self._asked
        ask = await self.ask(model)
        begun = begun_response(asked, id=_new_id("resp"), created_at=int(self.services.now()), model=model.id)
        self._num_bytes = await read_request(self._http, lambda: _json_size(begun, self._items))
        if asked.truncation == "auto":
            ask = await asyncio.to_thread(_shortened, model, ask)
        writer = ResponseWriter(
            begun,
            new_id=_new_id,
            now=self.services.now,
            logprobs=ask.options.logprobs is not None,
        )
        answers = await open_chat(self._http, self.services, model, ask, endpoint="responses")
        self._writer = writer
        if not asked.wants_stream:
            answers.listen(self._hear)
        return answers

    def whole(self, model: LoadedModel, completions: list[Completion]) -> Mapping[str, Any]:
        """The response as a whole."""
        assert self._writer is not None
        return self._writer.response

    async def events(self, model: LoadedModel, answers: Answers) -> AsyncGenerator[bytes]:
        """The response as it comes."""
        writer = self._writer
        assert writer is not None
        yield event_text(writer.begin())
        async for chunk in answers:
            events = writer.push(chunk)
            if chunk.completion is not None:
                self._keep()  # before the client hears of it, and goes on
            yield event_text(events)

    def broken(self, error: BaseException) -> bytes:
        """The end of a stream that breaks."""
        assert self._writer is not None
        told = as_api_error(error)
        code = {400: "invalid_prompt", 429: "rate_limit_exceeded"}.get(told.status, "server_error")
        return event_text(self._writer.fail(code=code, message=told.message))

    def _hear(self, chunk: Chunk) -> None:
        assert self._writer is not None
        self._writer.push(chunk)
        if chunk.completion is not None:
            self._keep()

    def _keep(self) -> None:
        if self._asked.store is not False and self.services.responses.max_responses:
            assert self._writer is not None
            self.services.responses.keep(
                StoredResponse(
                    self._writer.response,
                    tuple(self._items),
                    self._tenant,
                    self._num_bytes + len(to_json(self._writer.response["output"])),
                )
            )

    def _earlier(self) -> list[Item]:
        """What was asked and answered before."""
        previous = self._asked.previous_response_id
        if previous is None:
            return []
        kept = self.services.responses.require(previous, tenant=self._tenant, param="previous_response_id")
        return kept.conversation

    def _new_items(self) -> list[Item]:
        given = self._asked.input
        if given is None and self._asked.previous_response_id is None:
            raise ApiError(400, "input is missing; give a text or a list of items", param="input")
        if isinstance(given, list):
            check_count("input", given, self.services.settings.max_messages)
        store, tenant = self.services.responses, self._tenant
        return read_items(
            [] if given is None else given,
            new_id=_new_id,
            stored=lambda item_id: store.item(item_id, tenant=tenant),
        )


def _refuse_what_is_not_here(asked: ResponseRequest) -> None:
    refused = {
        "background": (bool(asked.background), "responses are made while the client waits; leave it out"),
        "conversation": (asked.conversation is not None, "conversations go on by previous_response_id"),
        "prompt": (
            asked.prompt is not None,
            "no prompt templates are kept here; send instructions and input",
        ),
        "n": (asked.n not in (None, 1), "this API gives one response to a request"),
    }
    for name, (is_given, reason) in refused.items():
        if is_given:
            raise ApiError(400, f"{name}: {reason}", param=name)


def _json_size(*values: Any) -> int:
    """Bytes of what is given back to clients later, as JSON text.

    Raises:
        ApiError: It is no Unicode text.
    """
    try:
        return len(to_json(values))
    except PydanticSerializationError as error:
        raise ApiError(400, "the request has half a surrogate pair, which is no character") from error


def _shortened(model: LoadedModel, ask: ChatAsk) -> ChatAsk:
    """Without oldest turns, so that a quarter of the context is left to answer in, or what the answer may take at most."""
    context = model.text.context_length
    wanted = ask.options.max_new_tokens
    room = context - min(context // 4 if wanted is None else wanted, context // 4)

    def fits(messages: list[dict[str, Any]]) -> bool:
        try:
            return ask_tokens(model, ask, messages) <= room
        except ContextLengthError:  # far more than anybody counts
            return False

    return replace(ask, messages=shortened(ask.messages, fits=fits))


def _new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"
