"""What a server says of its models when they are there: the things that operators look for first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from onnxgen.engine.stats import EngineStats
from onnxgen.engine.view import EngineView
from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.facade.chat_facts import ChatFacts
from onnxgen.foundations.disk import format_bytes
from onnxgen.metadata.model_spec import ModelSpec, SearchDefaults
from onnxgen.server.models import LoadedModel, ModelEntry

_DRAWN_BY = ("temperature", "top_k", "top_p")


async def introduce(model: LoadedModel) -> list[str]:
    """Lines about a model that was loaded: context, cache, template, tools, sampling.

    Raises:
        OnnxgenError: Its engine has failed.
    """
    head = f"{model.id}: loaded in {model.load_s:.1f} s"
    if model.llm is None:
        return [f"{head}, gives vectors"]
    llm: AsyncLLM = model.llm
    stats, view = await asyncio.gather(llm.stats(), llm.view())
    facts = await asyncio.to_thread(lambda: llm.chat_facts)
    said = {
        "context": f"{llm.context_length} tokens",
        "cache": _cache(stats, view),
        **what_it_does(model.entry, llm.spec, facts),
    }
    return [head, *in_columns(said)]


def what_it_does(entry: ModelEntry, spec: ModelSpec, facts: ChatFacts | None) -> dict[str, str]:
    """How a model converses and chooses tokens, by what is said of it.

    Args:
        entry: What the operator says of it.
        spec: What its folder means.
        facts: What its chat template was found to do; None: it has none.
    """
    said = {
        "template": _template(facts, replaced_by=entry.chat_template),
        "tool calls": _tools(facts, named=entry.tool_call_format),
        "reasoning": None if facts is None else facts.reasoning or "not marked",
        "sampling": sampling(spec.search, entry.defaults),
        "adapters": ", ".join(entry.adapters) or None,
    }
    return {name: text for name, text in said.items() if text is not None}


def in_columns(said: Mapping[str, str]) -> list[str]:
    """Lines of names and texts."""
    width = max(map(len, said))
    return [f"  {name.ljust(width)}  {text}" for name, text in said.items()]


def sampling(search: SearchDefaults, defaults: Mapping[str, Any]) -> str:
    """How tokens are chosen for requests that do not say."""
    asked = dict(defaults)
    if search.do_sample:
        asked = {**{name: getattr(search, name) for name in _DRAWN_BY}, **asked}
    if search.repetition_penalty != SearchDefaults().repetition_penalty:
        asked.setdefault("repetition_penalty", search.repetition_penalty)
    draws = search.do_sample or any(asked.get(name) for name in _DRAWN_BY)
    rest = ", ".join(f"{name} {value}" for name, value in asked.items())
    return ", ".join(filter(None, (None if draws else "the likeliest token", rest)))


def _cache(stats: EngineStats, view: EngineView) -> str:
    size = format_bytes(sum(group.total * group.block_bytes for group in stats.cache.groups))
    return f"{stats.cache.full.total * view.block_size} tokens of keys and values, {size} at most"


def _template(facts: ChatFacts | None, *, replaced_by: str | None) -> str:
    if facts is None:
        return "none: conversations are refused, texts are continued"
    return replaced_by or facts.template


def _tools(facts: ChatFacts | None, *, named: str | None) -> str | None:
    if facts is None:
        return None
    if named is not None:
        return f"{named}, as configured"
    if not facts.shows_tools:
        return "the template has no place for tools"
    return facts.tool_call_format or "the template does not show how; calls stay text"
