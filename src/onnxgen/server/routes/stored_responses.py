"""`/v1/responses/{id}`: responses that the server keeps, read and forgotten."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic_core import to_json

from onnxgen.server.errors import ApiError
from onnxgen.server.formats.response_store import StoredResponse
from onnxgen.server.generation.answers import tenant_of
from onnxgen.server.schemas.responses import ResponseDeleted, ResponseItemList, ResponseObject
from onnxgen.server.services import services_of

router = APIRouter(prefix="/v1/responses/{response_id}", tags=["responses"])

ResponseId = Annotated[str, Path(description="The id of a response that is kept.", max_length=512)]


@router.get("", response_model=ResponseObject, summary="Read a response")
async def read(http: Request, response_id: ResponseId, stream: bool = False) -> Response:
    """Read a response that is kept. It is not streamed a second time."""
    if stream:
        raise ApiError(400, "responses are streamed once, while they are made", param="stream")
    return Response(to_json(_kept(http, response_id).response), media_type="application/json")


@router.delete("", summary="Forget a response")
async def delete(http: Request, response_id: ResponseId) -> ResponseDeleted:
    """Forget a response that is kept; what went on from it stays."""
    _kept(http, response_id)
    services_of(http).responses.delete(response_id, tenant=tenant_of(http))
    return ResponseDeleted(id=response_id)


@router.post("/cancel", response_model=ResponseObject, summary="Refuse to cancel a response")
async def cancel(http: Request, response_id: ResponseId) -> Response:
    """Refused: what is kept has ended. A response ends when its client closes the connection."""
    _kept(http, response_id)
    raise ApiError(400, "the response has ended; one that is made ends when its client closes the connection")


@router.get("/input_items", summary="List what a response answered")
async def input_items(
    http: Request,
    response_id: ResponseId,
    limit: Annotated[int, Query(description="Items to list.", ge=1, le=100)] = 20,
    order: Annotated[Literal["asc", "desc"], Query(description="The oldest or the newest first.")] = "desc",
    after: Annotated[str | None, Query(description="List what follows the item of this id.")] = None,
) -> ResponseItemList:
    """List the items that a response answered, those of earlier responses that it went on from included."""
    items = list(_kept(http, response_id).input_items)
    if order == "desc":
        items.reverse()
    if after is not None:
        place = next((n for n, item in enumerate(items) if item["id"] == after), None)
        if place is None:
            raise ApiError(404, f"no item {after!r:.80} was answered by it", param="after")
        items = items[place + 1 :]
    page = items[:limit]
    ids = [item["id"] for item in page] or [None]
    return ResponseItemList(data=page, first_id=ids[0], last_id=ids[-1], has_more=len(items) > limit)


def _kept(http: Request, response_id: str) -> StoredResponse:
    return services_of(http).responses.require(response_id, tenant=tenant_of(http))
