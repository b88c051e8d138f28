"""`server_resources`: what a server and its models may take, and take."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

from onnxgen.engine.stats import EngineStats
from onnxgen.engine.view import EngineView
from onnxgen.errors import OnnxgenError
from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.foundations.cpuinfo import detect_cpu, detect_memory
from onnxgen.foundations.process_memory import peak_resident_bytes, resident_bytes, resident_bytes_of
from onnxgen.kvcache.tiers import TierUsage
from onnxgen.kvcache.usage import GroupUsage
from onnxgen.server.models.loaded import LoadedModel
from onnxgen.server.models.states import ModelStatus
from onnxgen.server.overview.load import VIEW_TIMEOUT_S
from onnxgen.server.schemas.status import CacheGroup, ModelBudget, ModelResources, ServerResources, Tiers

if TYPE_CHECKING:
    from onnxgen.server.services import Services


async def server_resources(services: Services) -> ServerResources:
    """What a server and its models may take, and take. Engines are asked; one that fails or hangs says nothing."""
    statuses = services.models.statuses()
    loaded = {model.id: model for model in services.models.loaded()}
    models = await asyncio.gather(*(_of_model(status, loaded.get(status.id)) for status in statuses))
    cpu, memory = await asyncio.to_thread(lambda: (detect_cpu(), detect_memory()))
    limits, sessions = services.models.limits, services.sessions
    return ServerResources(
        server_pid=os.getpid(),
        server_bytes=resident_bytes(),
        server_peak_bytes=peak_resident_bytes(),
        server_threads=threading.active_count(),
        logical_cores=cpu.logical_cores,
        cpu_quota=cpu.quota_cores,
        memory_limit_bytes=memory.total_bytes,
        memory_left_bytes=memory.available_bytes,
        sessions=len(sessions),
        max_sessions=sessions.limits.max_sessions,
        session_bytes=sessions.size_bytes,
        budget=ModelBudget(
            max_loaded_models=limits.max_loaded,
            models_memory_bytes=limits.memory_bytes,
            keep_alive_s=limits.keep_alive_s,
            loaded=len(loaded),
            memory_bytes=sum(status.memory_bytes or 0 for status in statuses),
        ),
        models=models,
    )


async def _of_model(status: ModelStatus, model: LoadedModel | None) -> ModelResources:
    shown = ModelResources(
        id=status.id,
        memory_bytes=status.memory_bytes,
        engine_pid=status.engine_pid,
        engine_bytes=resident_bytes_of(status.engine_pid),
        context_length=status.context_length,
    )
    if model is None or model.llm is None:
        return shown
    shown.backend, shown.threads = model.llm.config.backend, model.llm.config.threads
    found = await look_into(model.llm)
    return shown if found is None else shown.model_copy(update=_budgets(*found))


async def look_into(
    llm: AsyncLLM, *, steps: int = 0, prefixes: int = 0
) -> tuple[EngineStats, EngineView] | None:
    """What an engine counts and how it looks inside; None where it fails or takes too long."""
    try:
        return await asyncio.gather(
            llm.stats(timeout_s=VIEW_TIMEOUT_S),
            llm.view(steps=steps, prefixes=prefixes, timeout_s=VIEW_TIMEOUT_S),
        )
    except (TimeoutError, OnnxgenError):
        return None


def _budgets(stats: EngineStats, view: EngineView) -> dict[str, object]:
    cache, scheduling = stats.cache, view.scheduling
    return {
        "max_seq_tokens": view.max_seq_tokens,
        "cache_tokens": cache.full.total * cache.block_size,
        "block_size": cache.block_size,
        "full": cache_group(cache.full),
        "window": None if cache.window is None else cache_group(cache.window),
        "tiers": None if cache.tiers is None else _tiers(cache.tiers),
        "max_seqs": scheduling.max_seqs,
        "max_step_tokens": scheduling.max_step_tokens,
        "max_waiting": scheduling.max_waiting,
    }


def cache_group(group: GroupUsage) -> CacheGroup:
    """Blocks of one kind of layers, as clients see them."""
    return CacheGroup(
        blocks=group.total,
        in_use=group.in_use,
        cached=group.cached,
        free=group.free,
        block_bytes=group.block_bytes,
        capacity_bytes=group.total * group.block_bytes,
        used_bytes=group.used_bytes,
    )


def _tiers(usage: TierUsage) -> Tiers:
    return Tiers(
        memory_used_bytes=usage.host_bytes,
        memory_limit_bytes=usage.host_limit_bytes,
        disk_used_bytes=usage.disk_bytes,
        disk_limit_bytes=usage.disk_limit_bytes,
    )
