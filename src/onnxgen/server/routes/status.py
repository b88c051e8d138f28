"""`/v1/status` and `/v1/resources`: what a server does, and what it takes."""

from __future__ import annotations

from fastapi import APIRouter, Request

from onnxgen.server.errors import ApiError
from onnxgen.server.overview.load import server_status
from onnxgen.server.overview.resources import server_resources
from onnxgen.server.schemas.status import Prefixes, ServerResources, ServerStatus
from onnxgen.server.services import services_of

router = APIRouter(prefix="/v1", tags=["observability"])


@router.get("/status", response_model_exclude_none=True, summary="What the server does now")
async def status(request: Request, prefixes: Prefixes = 0) -> ServerStatus:
    """Say how busy each model is, for those who send requests to several servers.

    Keys of prefixes tell who knows a prompt whether somebody has asked it: they are for operators.
    """
    if prefixes and getattr(request.state, "key_scope", "admin") != "admin":
        raise ApiError(
            403, "prefixes are shown to admin keys only", type="permission_error", code="needs_admin_key"
        )
    return await server_status(services_of(request), prefixes=prefixes)


@router.get("/resources", response_model_exclude_none=True, summary="What the server takes")
async def resources(request: Request) -> ServerResources:
    """Say what the server and its models may take and take: cache, memory, threads, limits."""
    return await server_resources(services_of(request))
