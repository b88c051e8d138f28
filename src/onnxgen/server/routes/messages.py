"""`/v1/messages`: answers in the words of Anthropic's Messages API."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from onnxgen.facade.results import Chunk, Completion
from onnxgen.server.error_answers import error_body, route_path
from onnxgen.server.errors import as_api_error
from onnxgen.server.formats.conversations import with_system
from onnxgen.server.formats.event_text import event_text
from onnxgen.server.formats.message_asks import (
    output_format,
    reasoning_effort,
    refuse_what_is_not_here,
    thinking_shown,
)
from onnxgen.server.formats.message_blocks import (
    chat_messages,
    chat_tool_choice,
    chat_tools,
    system_text,
)
from onnxgen.server.formats.messages_answer import MessageWriter
from onnxgen.server.generation.answers import Answers, request_id_of, tenant_of
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
from onnxgen.server.schemas.messages import Message, MessagesPrompt, MessagesRequest, TokenCount
from onnxgen.server.services import Services, services_of

if TYPE_CHECKING:
    from onnxgen.server.models.table import LoadedModel

router = APIRouter(route_class=JsonRoute, prefix="/v1/messages", tags=["messages"])


_STREAM = {"description": "The answer, or with `stream` its events.", "content": {"text/event-stream": {}}}


@router.post("", responses={200: {"model": Message, **_STREAM}}, summary="Answer with a message")
async def create(http: Request, asked: MessagesRequest) -> Response:
    """Answer a conversation in Anthropic's form, whole or as a stream of events.

    The headers `x-api-key` and `anthropic-version` are accepted; all versions are the same here.
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


@router.post("/count_tokens", summary="Count the tokens of a prompt")
async def count_tokens(http: Request, asked: MessagesPrompt) -> TokenCount:
    """Count the tokens that a message would answer, without making it."""
    exchange = _Exchange(http, services_of(http), asked)
    async with asked_model(http, exchange.services, asked.model) as model:
        ask = await exchange.ask(model)
        return TokenCount(input_tokens=await asyncio.to_thread(ask_tokens, model, ask))


class _Exchange:
    """One request, from what it says to the message.

    Args:
        http: The request.
        services: Of the server.
        asked: What it says.

    Raises:
        ApiError: It says something that cannot be done here.
    """

    def __init__(self, http: Request, services: Services, asked: MessagesPrompt) -> None:
        log_unknown_fields(asked, services.unknown_fields)
        self.services = services
        self._http, self._asked = http, asked
        self._writer: MessageWriter | None = None

    async def ask(self, model: LoadedModel) -> ChatAsk:
        """What the model is asked.

        Raises:
            ApiError: Naming the field that is at fault.
        """
        return await read_request(self._http, lambda: self._read(model))

    def _read(self, model: LoadedModel) -> ChatAsk:
        """What the model is asked.

        Raises:
            ApiError: Naming the field that is at fault.
        """
        asked, settings = self._asked, self.services.settings
        refuse_what_is_not_here(asked)
        tools = asked.tools or []
        check_count("tools", tools, settings.max_tools)
        choice, parallel = chat_tool_choice(asked.tool_choice)
        check_count("messages", asked.messages, settings.max_messages)
        told = with_system(
            system_text(asked.system), chat_messages(asked.messages, media_check(settings, model))
        )
        messages = normalized_messages(told, max_messages=settings.max_messages, media=None)
        last = messages[-1]
        return ChatAsk(
            messages=messages,
            tools=chat_tools(tools) or None,
            options=generation_options(self._fields(), model=model, settings=settings).with_changes(
                {"allow_cap": True}  # a bound that this API wants to be given, fitting or not
            ),
            prompt_options=prompt_options(
                model=model,
                settings=settings,
                reasoning_effort=reasoning_effort(asked),
                template_variables=asked.chat_template_kwargs,
                tool_choice=choice,
                parallel_tool_calls=parallel,
                continue_final_message=last["role"] == "assistant" and "tool_calls" not in last,
            ),
            priority=asked.priority or 0,
            tenant=tenant_of(self._http),
            salt=asked.cache_salt,
            stream=asked.wants_stream,
        )

    async def open(self, model: LoadedModel, stack: AsyncExitStack) -> Answers:
        """Ask the model."""
        ask = await self.ask(model)
        assert ask.options.max_new_tokens is not None
        writer = MessageWriter(
            id=f"msg_{uuid.uuid4().hex}",
            model=model.id,
            thinking=thinking_shown(self._asked),
            max_tokens=ask.options.max_new_tokens,
        )
        answers = await open_chat(self._http, self.services, model, ask, endpoint="messages")
        self._writer = writer
        if not self._asked.wants_stream:
            answers.listen(self._hear)
        return answers

    def whole(self, model: LoadedModel, completions: list[Completion]) -> Mapping[str, Any]:
        """The message as a whole."""
        assert self._writer is not None
        return self._writer.message

    async def events(self, model: LoadedModel, answers: Answers) -> AsyncGenerator[bytes]:
        """The message as it comes."""
        writer, begun = self._writer, False
        assert writer is not None
        async for chunk in answers:
            events = [] if begun else writer.begin(prompt_tokens=chunk.prompt_tokens)
            begun = True
            if events := events + writer.push(chunk):
                yield event_text(events)

    def broken(self, error: BaseException) -> bytes:
        """The end of a stream that breaks."""
        body = error_body(
            as_api_error(error), path=route_path(self._http.scope), request_id=request_id_of(self._http)
        )
        return event_text([body])

    def _hear(self, chunk: Chunk) -> None:
        assert self._writer is not None
        self._writer.push(chunk)

    def _fields(self) -> MessagesPrompt:
        """What generation options are made of; more than the server allows is a bound like any other here."""
        asked, most = self._asked, self.services.settings.max_output_tokens
        changes: dict[str, Any] = {}
        if most is not None and asked.max_tokens is not None:
            changes["max_tokens"] = min(asked.max_tokens, most)
        if (form := output_format(asked)) is not None:
            changes["response_format"] = form
        return asked.model_copy(update=changes) if changes else asked
