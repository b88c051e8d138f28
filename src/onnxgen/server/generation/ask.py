"""`ChatAsk`: a conversation to answer, as all chat APIs come to it; `open_chat` asks it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.prompt_options import PromptOptions
from onnxgen.facade.results import Chunk
from onnxgen.preprocess.template_messages import text_size
from onnxgen.server.generation.answers import INLINE_SIZE, Answers, open_answers, request_id_of
from onnxgen.server.generation.large_requests import MAX_COUNTED_TOKENS
from onnxgen.server.generation.options import texts_size
from onnxgen.server.services import Services

if TYPE_CHECKING:
    from onnxgen.facade.async_llm import AsyncLLM
    from onnxgen.server.models.table import LoadedModel


@dataclass(frozen=True, slots=True)
class ChatAsk:
    """A conversation to answer.

    Attributes:
        messages: As `onnxgen.server.generation.messages.normalized_messages` gives them.
        tools: What may be called, in OpenAI's form; None: nothing.
        options: How to answer.
        prompt_options: How the conversation becomes a prompt.
        priority: Under the policy ``priority``: smaller goes first.
        tenant: Who asks, for the policy ``fair``.
        salt: Cached prefixes are shared only with requests of the same salt.
        stream: Whether the client gets pieces.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    options: GenerationOptions = field(default_factory=GenerationOptions)
    prompt_options: PromptOptions = field(default_factory=PromptOptions)
    priority: int = 0
    tenant: str = ""
    salt: str | None = None
    stream: bool = False


def ask_tokens(model: LoadedModel, ask: ChatAsk, messages: list[dict[str, Any]] | None = None) -> int:
    """How many tokens a conversation's prompt has; for a thread, since long ones take a while.

    Args:
        model: Who would answer.
        ask: What would be asked.
        messages: Other messages in place of its own.

    Raises:
        ContextLengthError: It has far more than anybody counts.
        ChatTemplateError: The template refuses the messages.
    """
    prompt = model.text.chat_prompt(
        ask.messages if messages is None else messages,
        tools=ask.tools,
        prompt_options=ask.prompt_options,
        max_tokens=MAX_COUNTED_TOKENS,
    )
    return len(prompt.token_ids)


async def open_chat(
    http: Request, services: Services, model: LoadedModel, ask: ChatAsk, *, endpoint: str
) -> Answers:
    """Ask a model to answer a conversation.

    Args:
        http: The request.
        services: Of the server.
        model: Who answers.
        ask: What is asked.
        endpoint: For metrics and logs.

    Returns:
        What must be closed, whatever happens.

    Raises:
        ApiError: The model does not answer.
        ClientLeftError: The client left meanwhile.
        OnnxgenError: As `AsyncLLM.chat`.
    """
    name = request_id_of(http)

    def chat(llm: AsyncLLM) -> AsyncGenerator[Chunk]:
        return llm.chat(
            ask.messages,
            tools=ask.tools,
            options=ask.options,
            prompt_options=ask.prompt_options,
            priority=ask.priority,
            tenant=ask.tenant,
            salt=ask.salt,
            name=name,
        )

    # definitions of tools become a grammar too, which takes longer than their length says
    size = INLINE_SIZE + 1 if ask.tools else text_size(ask.messages) + texts_size(ask.options)
    return await open_answers(
        http,
        services,
        model,
        chat,
        endpoint=endpoint,
        prompt_size=size,
        stream=ask.stream,
        n=ask.options.n,
    )
