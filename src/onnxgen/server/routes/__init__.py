"""One file per group of paths; each has a ``router``."""

from __future__ import annotations

from fastapi import APIRouter

from onnxgen.server.routes import chat, embeddings, sessions

ROUTERS: tuple[APIRouter, ...] = (chat.router, embeddings.router, sessions.router)
"""All of them, in the order in which the OpenAPI document lists them."""
