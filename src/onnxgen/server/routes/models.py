"""`/v1/models`: what requests may name as their model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request

from onnxgen.server.errors import ApiError
from onnxgen.server.models import ModelStatus
from onnxgen.server.schemas.models import ModelId, ModelList, ModelObject
from onnxgen.server.services import Services, services_of

router = APIRouter(prefix="/v1/models", tags=["models"])


Limit = Annotated[int | None, Query(description="Models to list; usually all.", ge=1, le=1000)]
Cursor = Annotated[str | None, Query(description="The id that the page is next to.", max_length=512)]


@router.get("", summary="List models")
async def list_models(
    request: Request, limit: Limit = None, after_id: Cursor = None, before_id: Cursor = None
) -> ModelList:
    """List the models that requests may name, loaded or not; the first one answers those that name none.

    In the forms of OpenAI's API and of Anthropic's at once; pages are the latter's.
    """
    services = services_of(request)
    found, has_more = page_of(services.models.statuses(), limit=limit, after_id=after_id, before_id=before_id)
    return ModelList(
        data=[_shown(status, services) for status in found],
        first_id=found[0].id if found else None,
        last_id=found[-1].id if found else None,
        has_more=has_more,
    )


def page_of(
    statuses: Sequence[ModelStatus], *, limit: int | None, after_id: str | None, before_id: str | None
) -> tuple[Sequence[ModelStatus], bool]:
    """A page of models, and whether there are more in its direction.

    Args:
        statuses: All of them.
        limit: The most that a page has; None: any number.
        after_id: The page begins after this one.
        before_id: The page ends before this one, and goes backwards from it.

    Raises:
        ApiError: 400: there is no model of that id, or two are given.
    """
    if after_id is not None and before_id is not None:
        raise ApiError(400, "after_id and before_id do not go together; give one", param="before_id")
    ids = [status.id for status in statuses]
    for name, given in (("after_id", after_id), ("before_id", before_id)):
        if given is not None and given not in ids:
            raise ApiError(400, f"{name} is {given!r:.80}, which is no id of a model here", param=name)
    if before_id is not None:
        rest = statuses[: ids.index(before_id)]
        return rest if limit is None else rest[-limit:], limit is not None and len(rest) > limit
    rest = statuses if after_id is None else statuses[ids.index(after_id) + 1 :]
    return rest[:limit], limit is not None and len(rest) > limit


@router.get("/{model_id:path}", summary="Describe a model")
async def describe(request: Request, model_id: ModelId) -> ModelObject:
    """Describe one model, by its id or an alias."""
    services = services_of(request)
    return _shown(services.models.status(model_id), services)


def _shown(status: ModelStatus, services: Services) -> ModelObject:
    entry = services.models.entry(status.id)
    created = int(status.loaded_at or services.started)
    return ModelObject(
        id=status.id,
        display_name=status.id,
        created=created,
        created_at=datetime.fromtimestamp(created, UTC),
        aliases=list(status.aliases),
        state=status.state.value,
        task=status.task,
        max_model_len=status.context_length,
        max_input_tokens=status.context_length,
        adapters=list(entry.adapters),
    )
