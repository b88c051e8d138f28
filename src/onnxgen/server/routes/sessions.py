"""`/v1/sessions`: conversations that the server keeps; chat goes on with one by the header ``X-Session-Id``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from onnxgen.server.errors import ApiError
from onnxgen.server.generation.answers import tenant_of
from onnxgen.server.generation.large_requests import read_request
from onnxgen.server.generation.messages import media_check, normalized_messages
from onnxgen.server.json_bodies import JsonRoute
from onnxgen.server.protection.key_check import ANONYMOUS
from onnxgen.server.schemas.sessions import (
    SessionList,
    SessionObject,
    SessionRequest,
    SessionWithMessages,
)
from onnxgen.server.services import services_of
from onnxgen.server.sessions.session import Session
from onnxgen.server.sessions.store import SessionStore

router = APIRouter(route_class=JsonRoute, prefix="/v1/sessions", tags=["sessions"])

SessionId = Annotated[str, Path(description="The id of a session.")]
Limit = Annotated[int, Query(description="Sessions to list.", ge=1, le=1000)]


@router.post("", summary="Begin a conversation")
async def create(request: Request, asked: SessionRequest | None = None) -> SessionObject:
    """Begin a conversation that the server keeps.

    Requests to `/v1/chat/completions` with its id in `X-Session-Id` send only what is new. An id of the client's own
    begins one too, without this.
    """
    services = services_of(request)
    messages: list[dict[str, Any]] = []
    if asked is not None and asked.messages is not None:
        given, settings = asked.messages, services.settings
        media = media_check(settings)
        messages = await read_request(
            request, lambda: normalized_messages(given, max_messages=settings.max_messages, media=media)
        )
    return _shown(services.sessions.create(tenant_of(request), messages), services.sessions)


@router.get("", summary="List conversations")
async def list_sessions(request: Request, limit: Limit = 100) -> SessionList:
    """List the conversations of this API key, the one used last first.

    Without API keys all callers are the same one, and who knows an id has the conversation: a list is given to this
    machine only.
    """
    store, tenant = services_of(request).sessions, tenant_of(request)
    if tenant == ANONYMOUS and getattr(request.state, "key_scope", None) != "admin":
        raise ApiError(
            403,
            "without API keys a list would show everybody's sessions to everybody; start the server with --api-key",
            type="permission_error",
            code="sessions_not_listed",
        )
    sessions = store.sessions(tenant)
    return SessionList(data=[_shown(s, store) for s in sessions[:limit]], has_more=len(sessions) > limit)


@router.get("/{session_id:path}", summary="Read a conversation")
async def read(request: Request, session_id: SessionId) -> SessionWithMessages:
    """Read a conversation with its messages."""
    store = services_of(request).sessions
    session = store.find(session_id, tenant_of(request))
    return SessionWithMessages(**_shown(session, store).model_dump(), messages=session.messages)


@router.delete("/{session_id:path}", status_code=204, summary="Forget a conversation")
async def delete(request: Request, session_id: SessionId) -> Response:
    """Forget a conversation; an answer that is under way goes on and is not remembered."""
    services_of(request).sessions.delete(session_id, tenant_of(request))
    return Response(status_code=204)


def _shown(session: Session, store: SessionStore) -> SessionObject:
    expires_at = store.expires_at(session)
    return SessionObject(
        id=session.id,
        created_at=int(session.created_at),
        used_at=int(session.used_at),
        expires_at=None if expires_at is None else int(expires_at),
        in_use=session.in_use,
        turns=session.turns,
        message_count=session.message_count,
        token_count=session.token_count,
        size_bytes=session.size_bytes,
    )
