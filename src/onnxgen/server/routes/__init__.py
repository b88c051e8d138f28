"""One file per group of paths; each has a ``router``."""

from __future__ import annotations

from fastapi import APIRouter

from onnxgen.server.routes import (
    admin,
    chat,
    completions,
    debug,
    embeddings,
    health,
    messages,
    metrics,
    models,
    page,
    responses,
    sessions,
    status,
    stored_responses,
    tokens,
)

ROUTERS: tuple[APIRouter, ...] = (
    chat.router,
    completions.router,
    responses.router,
    stored_responses.router,
    messages.router,
    embeddings.router,
    tokens.router,
    models.router,
    sessions.router,
    status.router,
    metrics.router,
    debug.router,
    health.router,
    admin.router,
    page.router,
)
"""All of them, in the order in which the OpenAPI document lists them."""
