"""`warm_up`: let a model answer once, so that the first request does not pay for what only happens once."""

from __future__ import annotations

import asyncio
import logging

from onnxgen.errors import CapabilityError, EngineDeadError, OnnxgenError, OptionError
from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.server.models.loaded import LoadedModel

_log = logging.getLogger(__name__)

_TEXT = "Say hello."
_TOKENS = 2
_GRAMMAR = {"type": "json_object"}


async def warm_up(model: LoadedModel) -> None:
    """Let a model answer briefly, once freely and once held to a grammar, or give a vector.

    The first grammar of a process reads the whole vocabulary, which can take seconds in which other threads stand still:
    here it happens in this process and in the engine's.

    Args:
        model: Which.

    Raises:
        OnnxgenError: It cannot even do that.
    """
    if model.llm is not None:
        await _answer(model.llm)
        await _answer_with_grammar(model.llm)
    elif model.embedder is not None:
        await asyncio.to_thread(model.embedder.embed, _TEXT)


async def _answer(llm: AsyncLLM) -> None:
    await llm.complete(_TEXT, max_new_tokens=_TOKENS, ignore_eos=True, temperature=0)
    if llm.has_chat_template:
        try:
            await llm.complete_chat([{"role": "user", "content": _TEXT}], max_new_tokens=1, temperature=0)
        except EngineDeadError:
            raise
        except OnnxgenError as refusal:  # some templates want what only their users know
            _log.debug("no conversation for a warm-up: %s", refusal)


async def _answer_with_grammar(llm: AsyncLLM) -> None:
    try:
        await llm.complete(_TEXT, max_new_tokens=_TOKENS, temperature=0, response_format=_GRAMMAR)
    except (CapabilityError, OptionError) as refusal:  # requests that want it will hear the same
        _log.debug("no grammar for a warm-up: %s", refusal)
