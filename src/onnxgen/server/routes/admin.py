"""`/v1/admin`: load, unload, restart and warm models, and change limits. Off unless the settings enable it."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from onnxgen.errors import ConfigError
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.server.errors import ApiError
from onnxgen.server.models import ModelStatus, TableLimits
from onnxgen.server.routes.operator_paths import only_where
from onnxgen.server.schemas.models import (
    AdminModel,
    AdminModelList,
    EngineLimitsChange,
    EngineLimitsReport,
    ModelId,
    TableLimitsChange,
    TableLimitsReport,
)
from onnxgen.server.services import Services, services_of

router = APIRouter(
    prefix="/v1/admin", tags=["admin"], dependencies=[Depends(only_where("enable_admin", "/v1/admin"))]
)

Force = Annotated[bool, Query(description="End requests that use it, with an error.")]


@router.get("/models", summary="List models with their state")
async def list_models(request: Request) -> AdminModelList:
    """List all models: whether they are loaded, what they take, how their engines are."""
    services = services_of(request)
    data = [_shown(status, services) for status in services.models.statuses()]
    return AdminModelList(data=data, limits=_limits(services))


@router.get("/limits", summary="Read how much may be in memory")
async def read_limits(request: Request) -> TableLimitsReport:
    """Read how much may be in memory, and what is."""
    return _limits(services_of(request))


@router.patch("/limits", summary="Change how much may be in memory")
async def change_limits(request: Request, asked: TableLimitsChange) -> TableLimitsReport:
    """Change how much may be in memory, until the server ends. Idle models over the limits are unloaded soon."""
    services = services_of(request)
    said, before = asked.model_dump(exclude_unset=True), services.models.limits
    services.models.set_limits(
        TableLimits(
            max_loaded=said.get("max_loaded_models", before.max_loaded),
            memory_bytes=said.get("memory_bytes", before.memory_bytes),
            keep_alive_s=said.get("keep_alive_s", before.keep_alive_s),
        )
    )
    return _limits(services)


@router.post("/models/{model_id:path}/load", summary="Load a model")
async def load(request: Request, model_id: ModelId) -> AdminModel:
    """Load a model, and answer when it is ready. Others make room for it where limits ask for that."""
    services = services_of(request)
    return _shown(await services.models.load(model_id), services)


@router.post("/models/{model_id:path}/unload", summary="Unload a model")
async def unload(request: Request, model_id: ModelId, force: Force = False) -> AdminModel:
    """Unload a model. The next request for it loads it again."""
    services = services_of(request)
    return _shown(await services.models.unload(model_id, force=force), services)


@router.post("/models/{model_id:path}/warm", summary="Warm a model up")
async def warm(request: Request, model_id: ModelId) -> AdminModel:
    """Load a model if need be, and let it answer once."""
    services = services_of(request)
    return _shown(await services.models.warm_up(model_id), services)


@router.post("/models/{model_id:path}/restart", summary="Make a model's engine anew")
async def restart(request: Request, model_id: ModelId) -> AdminModel:
    """End the process of a model's engine, and start another. Requests that it has end with an error."""
    services = services_of(request)
    return _shown(await services.models.restart(model_id), services)


@router.get("/models/{model_id:path}/limits", summary="Read the budgets of a model's engine")
async def read_engine_limits(request: Request, model_id: ModelId) -> EngineLimitsReport:
    """Read the budgets of a model's engine. Loads the model if need be."""
    async with services_of(request).models.use(model_id) as model:
        return _engine_limits(model.id, model.text.scheduler_config)


@router.patch("/models/{model_id:path}/limits", summary="Change the budgets of a model's engine")
async def change_engine_limits(
    request: Request, model_id: ModelId, asked: EngineLimitsChange
) -> EngineLimitsReport:
    """Change the budgets of a model's engine, until it is unloaded.

    What is over the new budgets gives way in the next steps, and goes on later.
    """
    async with services_of(request).models.use(model_id) as model:
        llm = model.text
        try:
            await llm.reconfigure(replace(llm.scheduler_config, **asked.model_dump(exclude_unset=True)))
        except ConfigError as cause:
            raise ApiError(400, str(cause)) from cause
        return _engine_limits(model.id, llm.scheduler_config)


@router.get("/models/{model_id:path}", summary="Describe a model's state")
async def describe(request: Request, model_id: ModelId) -> AdminModel:
    """Describe one model: whether it is loaded, what it takes, how its engine is."""
    services = services_of(request)
    return _shown(services.models.status(model_id), services)


@router.delete("/models/{model_id:path}", summary="Unload a model")
async def remove(request: Request, model_id: ModelId, force: Force = False) -> AdminModel:
    """Unload a model, as `/unload` does."""
    return await unload(request, model_id, force=force)


def _shown(status: ModelStatus, services: Services) -> AdminModel:
    told = {**asdict(status), "aliases": list(status.aliases), "state": status.state.value}
    return AdminModel.model_validate({**told, "source": services.models.entry(status.id).source})


def _limits(services: Services) -> TableLimitsReport:
    limits, statuses = services.models.limits, services.models.statuses()
    sizes = [status.memory_bytes for status in statuses if status.loaded_at is not None]
    return TableLimitsReport(
        max_loaded_models=limits.max_loaded,
        memory_bytes=limits.memory_bytes,
        keep_alive_s=limits.keep_alive_s,
        used_bytes=sum(size for size in sizes if size is not None),
        loaded_models=len(sizes),
    )


def _engine_limits(id: str, config: SchedulerConfig) -> EngineLimitsReport:
    return EngineLimitsReport(
        id=id,
        max_seqs=config.max_seqs,
        max_step_tokens=config.max_step_tokens,
        chunk_tokens=config.chunk_tokens,
        max_waiting=config.max_waiting,
        max_cache_bytes=config.max_cache_bytes,
        policy=config.policy,
    )
