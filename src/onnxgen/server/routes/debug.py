"""`/v1/debug`: how a server is configured and what happens inside, for its operator. Only where it is enabled."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic_core import to_json

from onnxgen.engine.stats import StepStats
from onnxgen.server.models.loaded import LoadedModel
from onnxgen.server.observe.trace_document import trace_document
from onnxgen.server.overview.resources import look_into
from onnxgen.server.overview.shown_settings import shown_entry, shown_runtime, shown_settings, versions
from onnxgen.server.routes.operator_paths import only_where
from onnxgen.server.schemas.status import Prefixes
from onnxgen.server.services import Services, services_of

_STEPS = 4096

router = APIRouter(
    prefix="/v1/debug", tags=["debug"], dependencies=[Depends(only_where("enable_debug", "/v1/debug"))]
)

Seconds = Annotated[float, Query(description="How far back it goes.", gt=0, le=3600, allow_inf_nan=False)]


@router.get("/config", summary="How the server is configured")
async def config(request: Request) -> dict[str, Any]:
    """Show settings, models and versions. Of keys only the names are shown."""
    services = services_of(request)
    loaded = {model.id: model for model in services.models.loaded()}
    return {
        "settings": shown_settings(services.settings),
        "models": [
            {"entry": shown_entry(entry)} | _runtime_of(loaded.get(entry.id))
            for entry in services.models.entries
        ],
        "versions": versions(),
    }


@router.get("/sessions", summary="Conversations that the server keeps")
async def sessions(request: Request) -> dict[str, Any]:
    """Show how many conversations there are and what they take; not what is said in them, and no id that opens one."""
    store = services_of(request).sessions
    return {
        "limits": dataclasses.asdict(store.limits),
        "count": len(store),
        "size_bytes": store.size_bytes,
        "sessions": [
            {
                "digest": hashlib.blake2b(session.id.encode(), digest_size=6).hexdigest(),
                "tenant": session.tenant,
                "created_at": session.created_at,
                "used_at": session.used_at,
                "in_use": session.in_use,
                "turns": session.turns,
                "token_count": session.token_count,
                "size_bytes": session.size_bytes,
            }
            for session in store.sessions()
        ],
    }


@router.get("/kv", summary="Caches of keys and values")
async def kv(request: Request, prefixes: Prefixes = 64) -> dict[str, Any]:
    """Show each engine's cache: blocks, the sequences that hold them, and beginnings that it knows."""
    models = _writing(services_of(request))
    found = await asyncio.gather(*(look_into(model.text, prefixes=prefixes) for model in models))
    shown: dict[str, Any] = {}
    for model, looked in zip(models, found, strict=True):
        if looked is None:
            shown[model.id] = {"error": "the engine failed, or did not answer in time"}
            continue
        stats, view = looked
        shown[model.id] = {
            "usage": dataclasses.asdict(stats.cache),
            "sequences": [dataclasses.asdict(sequence) for sequence in view.sequences],
            "prefixes": [dataclasses.asdict(prefix) for prefix in view.prefixes],
            "max_seq_tokens": view.max_seq_tokens,
            "scheduling": dataclasses.asdict(view.scheduling),
        }
    return {"models": shown}


@router.get("/trace", summary="What happened in the last seconds", response_model=dict[str, Any])
async def trace(request: Request, seconds: Seconds = 30) -> Response:
    """Give requests and engine steps of the last seconds as a file for https://ui.perfetto.dev."""
    services = services_of(request)
    observer, models = services.observer, _writing(services)
    found = await asyncio.gather(*(look_into(model.text, steps=_STEPS) for model in models))
    steps: dict[str, tuple[StepStats, ...]] = {
        model.id: looked[1].steps for model, looked in zip(models, found, strict=True) if looked is not None
    }
    now = observer.clock()
    ended, going_on = tuple(observer.recent.ended_requests), tuple(observer.recent.open_requests.values())

    def written() -> bytes:
        return to_json(trace_document(ended, going_on, steps, since_s=now - seconds, now_s=now))

    headers = {"Content-Disposition": 'attachment; filename="onnxgen-trace.json"'}
    return Response(await asyncio.to_thread(written), media_type="application/json", headers=headers)


def _writing(services: Services) -> list[LoadedModel]:
    return [model for model in services.models.loaded() if model.llm is not None]


def _runtime_of(model: LoadedModel | None) -> dict[str, Any]:
    if model is None or model.llm is None:
        return {}
    return {"runtime": shown_runtime(model.llm), "folder": str(model.llm.spec.folder)}
