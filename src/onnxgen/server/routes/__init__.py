"""One file per group of paths; each has a ``router``."""

from __future__ import annotations

from fastapi import APIRouter

ROUTERS: tuple[APIRouter, ...] = ()
"""All of them, in the order in which the OpenAPI document lists them."""
