"""`/v1/models`: what requests may name as their model."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request

from onnxgen.server.models import ModelStatus
from onnxgen.server.schemas.models import ModelList, ModelObject
from onnxgen.server.services import Services, services_of

router = APIRouter(prefix="/v1/models", tags=["models"])


@router.get("", summary="List models")
async def list_models(request: Request) -> ModelList:
    """List the models that requests may name, loaded or not; the first one answers those that name none."""
    services = services_of(request)
    return ModelList(data=[_shown(status, services) for status in services.models.statuses()])


@router.get("/{model_id:path}", summary="Describe a model")
async def describe(
    request: Request, model_id: Annotated[str, Path(description="An id or an alias; may have slashes.")]
) -> ModelObject:
    """Describe one model, by its id or an alias."""
    services = services_of(request)
    return _shown(services.models.status(model_id), services)


def _shown(status: ModelStatus, services: Services) -> ModelObject:
    entry = services.models.entry(status.id)
    return ModelObject(
        id=status.id,
        created=int(status.loaded_at or services.started),
        aliases=list(status.aliases),
        state=status.state.value,
        task=status.task,
        max_model_len=status.context_length,
        adapters=list(entry.adapters),
    )
