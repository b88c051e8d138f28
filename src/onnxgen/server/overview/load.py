"""`server_status`: what a server does now, for those who send requests to several."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onnxgen.errors import OnnxgenError
from onnxgen.server.models.loaded import LoadedModel
from onnxgen.server.models.states import ModelState, ModelStatus
from onnxgen.server.schemas.status import KnownPrefix, ModelLoad, ServerStatus
from onnxgen.version import __version__

if TYPE_CHECKING:
    from onnxgen.server.observe.observer import Observer
    from onnxgen.server.services import Services

VIEW_TIMEOUT_S = 5.0
"""How long an engine may take to show itself: its steps are much shorter."""


async def server_status(services: Services, *, prefixes: int) -> ServerStatus:
    """What a server does now. Engines are asked only for prefixes; other numbers are those that were last heard.

    Args:
        services: Of the server.
        prefixes: Beginnings of sequences that each engine's cache has, at most.
    """
    health, settings = services.models.health, services.settings
    now = services.now()
    models = [model_load(services.observer, status) for status in services.models.statuses()]
    if prefixes:
        loaded = {model.id: model for model in services.models.loaded()}
        await asyncio.gather(*(_add_prefixes(load, loaded.get(load.id), prefixes) for load in models))
    return ServerStatus(
        node_id=settings.node_id or f"{settings.host}:{settings.port}",
        version=__version__,
        status="draining" if services.draining else health.status,
        reason=health.reason,
        draining=services.draining,
        started_at=int(services.started),
        uptime_s=round(now - services.started, 3),
        in_progress=len(services.observer.recent.open_requests),
        models=models,
    )


def model_load(observer: Observer, status: ModelStatus) -> ModelLoad:
    """What one model does, as its engine last said."""
    load = ModelLoad(
        id=status.id,
        aliases=list(status.aliases),
        state=status.state.value,
        task=status.task,
        in_use=status.uses,
        context_length=status.context_length,
    )
    watch = observer.watch
    numbers = None if watch is None else watch.latest(status.id)
    if watch is None or numbers is None or status.state is not ModelState.READY:
        return load  # what an engine said that is no more is not told
    stats, full = numbers.stats, numbers.stats.cache.full
    load.running, load.waiting = stats.running, stats.waiting
    load.kv_usage = round(numbers.kv_usage, 6)
    load.kv_free_tokens = (full.free + full.cached) * stats.cache.block_size
    load.age_s = round(observer.clock() - numbers.at_s, 3)
    rates = watch.rates(status.id)
    if rates is not None:
        load.prompt_tokens_per_s = round(rates.prompt_tok_s, 3)
        load.generation_tokens_per_s = round(rates.answer_tok_s, 3)
        hits = rates.prefix_hit_rate
        load.prefix_hit_rate = None if hits is None else round(hits, 6)
    return load


async def _add_prefixes(load: ModelLoad, model: LoadedModel | None, most: int) -> None:
    """Add what an engine's cache knows; one that fails or takes too long says nothing."""
    if model is None or model.llm is None:
        return
    try:
        view = await model.llm.view(prefixes=most, timeout_s=VIEW_TIMEOUT_S)
    except (TimeoutError, OnnxgenError):
        return
    load.block_size = view.block_size
    load.prefixes = [KnownPrefix(key=p.key, tokens=p.num_tokens, in_use=p.in_use) for p in view.prefixes]
