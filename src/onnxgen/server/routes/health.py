"""`/health`: whether the server can answer, for load balancers and process managers."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from onnxgen.server.schemas.models import HealthReport
from onnxgen.server.services import services_of

router = APIRouter(tags=["health"])

_RETRY_AFTER_S = "2"


@router.get(
    "/health",
    responses={503: {"model": HealthReport, "description": "Loading, unhealthy, or about to end."}},
    summary="Say whether the server can answer",
)
async def health(request: Request, response: Response) -> HealthReport:
    """Say whether the server can answer: 200 if it can, else 503 with the reason.

    Needs no key, and takes no part in the models' work.
    """
    services = services_of(request)
    found = services.models.health
    status, reason = found.status, found.reason
    report = HealthReport(
        status="draining" if services.draining else status,
        reason="the server is about to end" if services.draining else reason,
        models={name: state.value for name, state in found.models.items()},
    )
    if report.status != "ok":
        response.status_code = 503
        response.headers["Retry-After"] = _RETRY_AFTER_S
    return report
