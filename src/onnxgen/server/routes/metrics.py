"""`/metrics`: numbers for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from onnxgen.server.services import services_of

router = APIRouter(tags=["observability"])

_TEXT = "text/plain; version=0.0.4; charset=utf-8"


@router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    response_class=Response,
    responses={200: {"description": "Prometheus's text format.", "content": {"text/plain": {}}}},
)
async def metrics(request: Request) -> Response:
    """Give everything that is counted, in Prometheus's text format. Nothing is asked of engines meanwhile."""
    return Response(services_of(request).observer.metrics.text(), media_type=_TEXT)
