"""`/tokenize`, `/detokenize`, `/apply-template`, `/tokenizer_info`: what a model sees of texts and conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request, Response
from pydantic_core import to_json

from onnxgen.engine.request import check_ids
from onnxgen.preprocess.chat_template import ChatPrompt
from onnxgen.preprocess.long_texts import check_length
from onnxgen.preprocess.template_messages import text_size
from onnxgen.server.errors import ApiError
from onnxgen.server.generation.answers import INLINE_SIZE
from onnxgen.server.generation.client_watch import asked_model
from onnxgen.server.generation.counts import check_count
from onnxgen.server.generation.large_requests import MAX_COUNTED_TOKENS, read_request
from onnxgen.server.generation.messages import media_check, normalized_messages
from onnxgen.server.generation.prompt_options import prompt_options
from onnxgen.server.generation.unknown_fields import log_unknown_fields
from onnxgen.server.json_bodies import JsonRoute
from onnxgen.server.schemas.chat import ChatRequest
from onnxgen.server.schemas.tokens import (
    DetokenizeRequest,
    TemplateAnswer,
    TemplateRequest,
    Text,
    TokenizeRequest,
    TokenizerInfo,
    TokenPiece,
    Tokens,
)
from onnxgen.server.services import services_of
from onnxgen.server.settings import ServerSettings

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer
    from onnxgen.server.models.table import LoadedModel

router = APIRouter(route_class=JsonRoute, tags=["tokens"])

T = TypeVar("T")


@router.post("/tokenize", response_model=Tokens)
async def tokenize(http: Request, fields: TokenizeRequest) -> Response:
    """Tokens of a text or a conversation, in the form of llama.cpp's server (`content`) or vLLM's."""
    services = services_of(http)
    log_unknown_fields(fields, services.unknown_fields, known=ChatRequest.model_fields)
    check_tokenize(fields)
    async with asked_model(http, services, fields.model) as model:
        tokens = await _tokens(http, model, fields, services.settings)
        size = len(tokens["tokens"])
        body = await _done(lambda: to_json(tokens), size=size)
    return Response(body, media_type="application/json")


@router.post("/detokenize")
async def detokenize(http: Request, fields: DetokenizeRequest) -> Text:
    """The text of tokens."""
    services = services_of(http)
    log_unknown_fields(fields, services.unknown_fields)
    async with asked_model(http, services, fields.model) as model:
        tokenizer, skip = model.tokenizer, bool(fields.skip_special_tokens)

        def decode() -> str:
            check_ids(fields.tokens, tokenizer.vocab_size, what="tokens")
            return tokenizer.decode(fields.tokens, skip_special_tokens=skip)

        text = await _done(decode, size=len(fields.tokens))
    return {"content": text, "prompt": text}


@router.post("/apply-template")
async def apply_template(http: Request, fields: TemplateRequest) -> TemplateAnswer:
    """A conversation as `/v1/chat/completions` would show it to the model, and nothing is answered."""
    services = services_of(http)
    log_unknown_fields(fields, services.unknown_fields, known=ChatRequest.model_fields)
    async with asked_model(http, services, fields.model) as model:
        prompt = await _chat_prompt(http, model, fields, fields.messages, services.settings)
    return {"prompt": prompt.text}


@router.get("/tokenizer_info")
async def tokenizer_info(
    http: Request, model: Annotated[str | None, Query(max_length=512, description="Whose tokenizer.")] = None
) -> TokenizerInfo:
    """Special tokens, the context and the chat template of a model."""
    async with asked_model(http, services_of(http), model) as loaded:
        tokenizer = loaded.tokenizer
        named = tokenizer.special_tokens
        return {
            "model": loaded.id,
            "vocab_size": tokenizer.vocab_size,
            "model_max_length": loaded.context_length,
            "bos_token": named.get("bos_token"),
            "eos_token": named.get("eos_token"),
            "pad_token": named.get("pad_token"),
            "unk_token": named.get("unk_token"),
            "chat_template": None if loaded.llm is None else loaded.llm.chat_template,
        }


def check_tokenize(fields: TokenizeRequest) -> None:
    """Refuse what cannot be meant.

    Raises:
        ApiError: 400, naming the field.
    """
    given = [name for name in ("content", "prompt", "messages") if getattr(fields, name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise _wrong((given or ["prompt"])[-1], f"give one of content, prompt and messages; got {found}")
    for name, wants in (
        ("add_special", ("content",)),
        ("add_special_tokens", ("prompt", "messages")),
        ("with_pieces", ("content",)),
        ("return_token_strs", ("prompt", "messages")),
        ("parse_special", ("content", "prompt")),
    ):
        if getattr(fields, name) is not None and given[0] not in wants:
            raise _wrong(name, f"goes with {' and '.join(wants)}, not with {given[0]}")
    if fields.add_special_tokens and fields.messages is not None:
        raise _wrong(
            "add_special_tokens", "a conversation has the special tokens that the chat template writes"
        )


async def _tokens(
    http: Request, model: LoadedModel, fields: TokenizeRequest, settings: ServerSettings
) -> Tokens:
    if fields.messages is not None:
        prompt = await _chat_prompt(http, model, fields, fields.messages, settings)
        return _counted(model, fields, prompt.token_ids)
    text = fields.content if fields.prompt is None else fields.prompt
    assert text is not None
    special = bool(fields.add_special) if fields.prompt is None else fields.add_special_tokens is not False
    tokenizer = model.tokenizer

    def encode() -> list[int]:
        check_length(text, MAX_COUNTED_TOKENS, tokenizer=tokenizer)
        parse = fields.parse_special is not False
        return tokenizer.encode(text, add_special_tokens=special, parse_special=parse)

    ids = await _done(encode, size=len(text))
    if fields.prompt is not None:
        return _counted(model, fields, ids)
    return {"tokens": [_piece(tokenizer, token) for token in ids] if fields.with_pieces else ids}


async def _chat_prompt(
    http: Request,
    model: LoadedModel,
    fields: TokenizeRequest | TemplateRequest,
    given: list[dict[str, Any]],
    settings: ServerSettings,
) -> ChatPrompt:
    """The prompt of a conversation, as chat has it."""
    if fields.chat_template is not None:
        raise _wrong(
            "chat_template", "only the operator says which template is used; see chat_template_kwargs"
        )
    continues = bool(fields.continue_final_message)
    if continues and fields.add_generation_prompt:
        raise _wrong("add_generation_prompt", "an answer cannot begin where the final message goes on")
    check_count("tools", fields.tools, settings.max_tools)
    llm = model.text
    media = media_check(settings, model)
    messages = await read_request(
        http, lambda: normalized_messages(given, max_messages=settings.max_messages, media=media)
    )
    variables = dict(fields.chat_template_kwargs or {})
    if fields.documents is not None:
        variables.setdefault("documents", fields.documents)
    options = prompt_options(
        model=model,
        settings=settings,
        reasoning_effort=fields.reasoning_effort,
        template_variables=variables,
        continue_final_message=continues,
    )

    def render() -> ChatPrompt:
        return llm.chat_prompt(
            messages,
            tools=fields.tools or None,
            prompt_options=options,
            add_generation_prompt=not continues and fields.add_generation_prompt is not False,
            max_tokens=MAX_COUNTED_TOKENS,
        )

    return await _done(render, size=INLINE_SIZE + 1 if fields.tools else text_size(messages))


async def _done(work: Callable[[], T], *, size: int) -> T:
    """Short work here, long work in a thread."""
    return await asyncio.to_thread(work) if size > INLINE_SIZE else work()


def _counted(model: LoadedModel, fields: TokenizeRequest, ids: list[int]) -> Tokens:
    names = None
    if fields.return_token_strs:
        tokenizer = model.tokenizer
        names = [tokenizer.id_to_token(token) or "" for token in ids]
    return {"count": len(ids), "max_model_len": model.context_length, "tokens": ids, "token_strs": names}


def _piece(tokenizer: Tokenizer, token: int) -> TokenPiece:
    content = tokenizer.token_bytes(token)
    try:
        return {"id": token, "piece": content.decode()}
    except UnicodeDecodeError:
        return {"id": token, "piece": list(content)}


def _wrong(field: str, message: str) -> ApiError:
    return ApiError(400, f"{field}: {message}", param=field)
