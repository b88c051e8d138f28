"""`/v1/chat/completions`."""

from __future__ import annotations

import datetime
import uuid
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Request
from starlette.responses import Response

from onnxgen.facade.results import Completion
from onnxgen.server.errors import ApiError
from onnxgen.server.generation.allowed_tools import allowed_tools
from onnxgen.server.generation.answers import Answers, tenant_of
from onnxgen.server.generation.ask import ChatAsk, open_chat
from onnxgen.server.generation.chat_answer import chat_choice
from onnxgen.server.generation.chat_events import ChatEvents
from onnxgen.server.generation.counts import check_count
from onnxgen.server.generation.fingerprint import system_fingerprint
from onnxgen.server.generation.kept_answer import KeptAnswer, session_tokens
from onnxgen.server.generation.large_requests import read_request
from onnxgen.server.generation.messages import media_check, normalized_messages
from onnxgen.server.generation.options import generation_options
from onnxgen.server.generation.prompt_options import prompt_options
from onnxgen.server.generation.respond import respond
from onnxgen.server.generation.unknown_fields import log_unknown_fields
from onnxgen.server.generation.usage import timings_of, usage_of
from onnxgen.server.json_bodies import JsonRoute
from onnxgen.server.schemas.chat import ChatCompletion, ChatRequest
from onnxgen.server.services import Services, services_of
from onnxgen.server.sessions.session import Session

if TYPE_CHECKING:
    from onnxgen.server.models.table import LoadedModel

router = APIRouter(route_class=JsonRoute, tags=["chat"])

ENDPOINT = "chat.completions"
_STREAM = {"description": "The answer, or with `stream` its chunks.", "content": {"text/event-stream": {}}}


@router.post("/v1/chat/completions", responses={200: {"model": ChatCompletion, **_STREAM}})
async def create_chat_completion(
    http: Request, fields: ChatRequest, x_session_id: Annotated[str | None, Header()] = None
) -> Response:
    """Answer a conversation, whole or as a stream of chunks."""
    services = services_of(http)
    log_unknown_fields(fields, services.unknown_fields)
    check_supported(fields)
    chat = _Chat(http, services, fields, session_id=x_session_id)
    return await respond(
        http,
        services,
        fields.model,
        stream=fields.wants_stream,
        open=chat.open,
        whole=chat.whole,
        events=chat.events,
        headers=None if x_session_id is None else {"X-Session-Id": x_session_id},
    )


def check_supported(fields: ChatRequest) -> None:
    """Refuse what would be ignored although the answer depends on it.

    Raises:
        ApiError: 400, naming the field.
    """
    for name, instead in (
        ("chat_template", "only the operator says which template is used; see chat_template_kwargs"),
        ("functions", "give tools"),
        ("function_call", "give tool_choice"),
        ("audio", "answers are text"),
        ("web_search_options", "nothing is looked up; give tools"),
    ):
        if getattr(fields, name) is not None:
            raise ApiError(400, f"{name} is not supported here: {instead}", param=name)
    if fields.modalities is not None and set(fields.modalities) != {"text"}:
        raise ApiError(400, "modalities: answers are text, so only ['text'] will do", param="modalities")
    if fields.top_logprobs is not None and not fields.logprobs:
        raise ApiError(400, "top_logprobs needs logprobs to be true", param="top_logprobs")
    if fields.add_generation_prompt is bool(fields.continue_final_message):
        raise ApiError(
            400,
            "add_generation_prompt must be the opposite of continue_final_message",
            param="add_generation_prompt",
        )


class _Chat:
    """One request.

    Args:
        http: As it came.
        services: Of the server.
        fields: What it says.
        session_id: The conversation that it goes on with; None: it brings all of it.
    """

    def __init__(
        self, http: Request, services: Services, fields: ChatRequest, *, session_id: str | None
    ) -> None:
        self._http, self._services, self._fields = http, services, fields
        self._session_id = session_id
        self._id, self._created = f"chatcmpl-{uuid.uuid4().hex}", int(services.now())
        self._n = 1 if fields.n is None else fields.n
        self._show_reasoning = fields.include_reasoning is not False

    async def open(self, model: LoadedModel, stack: AsyncExitStack) -> Answers:
        """Ask the model."""
        fields, settings = self._fields, self._services.settings
        media = media_check(settings, model)
        messages = await read_request(
            self._http,
            lambda: normalized_messages(fields.messages, max_messages=settings.max_messages, media=media),
        )
        check_count("tools", fields.tools, settings.max_tools)
        if fields.continue_final_message and messages[-1]["role"] != "assistant":
            raise ApiError(
                400,
                "continue_final_message needs a last message of the assistant to continue",
                param="continue_final_message",
            )
        options = generation_options(fields, model=model, settings=settings)
        if self._session_id is None:
            return await self._ask(model, messages, options)
        session = self._session()
        turn = stack.enter_context(session.turn(messages))
        now = datetime.datetime.fromtimestamp(session.created_at)
        answers = await self._ask(model, turn.messages, options, now=now)
        stack.callback(KeptAnswer(turn, answers).remember)
        return answers

    def whole(self, model: LoadedModel, completions: list[Completion]) -> ChatCompletion:
        """The answer that is not streamed."""
        body: ChatCompletion = {
            "id": self._id,
            "object": "chat.completion",
            "created": self._created,
            "model": model.id,
            "system_fingerprint": system_fingerprint(model),
            "choices": [
                chat_choice(completion, index, show_reasoning=self._show_reasoning)
                for index, completion in enumerate(completions)
            ],
            "usage": usage_of(completions, n=self._n),
        }
        if self._n == 1:
            body["timings"] = timings_of(completions[0])
        body |= self._at_end(completions[0])  # pyright: ignore[reportAssignmentType] - some of its fields
        return body

    def events(self, model: LoadedModel, answers: Answers) -> Any:
        """The events of one that is."""
        fields = self._fields
        events = ChatEvents(
            id=self._id,
            created=self._created,
            model=model.id,
            fingerprint=system_fingerprint(model),
            n=self._n,
            with_usage=fields.wants_usage,
            with_logprobs=bool(fields.logprobs),
            show_reasoning=self._show_reasoning,
            at_end=self._at_end,
        )
        return events.stream(answers)

    async def _ask(
        self, model: LoadedModel, messages: list[dict[str, Any]], options: Any, **more: Any
    ) -> Answers:
        fields = self._fields
        variables = dict(fields.chat_template_kwargs or {})
        if fields.documents is not None:
            variables.setdefault("documents", fields.documents)
        tools, tool_choice = allowed_tools(fields.tools or (), fields.tool_choice)
        ask = ChatAsk(
            messages,
            tools=tools or None,
            options=options,
            prompt_options=prompt_options(
                model=model,
                settings=self._services.settings,
                reasoning_effort=fields.reasoning_effort,
                template_variables=variables,
                tool_choice=tool_choice,
                parallel_tool_calls=fields.parallel_tool_calls,
                continue_final_message=bool(fields.continue_final_message),
                **more,
            ),
            priority=fields.priority or 0,
            tenant=tenant_of(self._http),
            salt=fields.cache_salt,
            stream=fields.wants_stream,
        )
        return await open_chat(self._http, self._services, model, ask, endpoint=ENDPOINT)

    def _session(self) -> Session:
        assert self._session_id is not None
        for name, is_alone in (
            ("n", self._n == 1),
            ("continue_final_message", not self._fields.continue_final_message),
        ):
            if not is_alone:
                raise ApiError(400, f"{name} does not go together with X-Session-Id", param=name)
        return self._services.sessions.open(self._session_id, tenant_of(self._http))

    def _at_end(self, completion: Completion) -> dict[str, Any]:
        """What an answer says of the conversation that it is kept in."""
        if self._session_id is None:
            return {}
        return {"session_id": self._session_id, "session_token_count": session_tokens(completion)}
