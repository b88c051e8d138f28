"""An engine that runs elsewhere, in a thread or in a process of its own, as its callers see it.

Knows requests, events and what may go wrong between two threads or processes; knows nothing of text or asyncio.
"""

from __future__ import annotations

from onnxgen.engine.client.base import Core, Health, HealthState, Listener, Recipe
from onnxgen.engine.client.client import EngineClient
from onnxgen.engine.client.in_process import in_process
from onnxgen.engine.client.recipe import ModelRecipe
from onnxgen.engine.client.subprocess import in_subprocess

__all__ = [
    "Core",
    "EngineClient",
    "Health",
    "HealthState",
    "Listener",
    "ModelRecipe",
    "Recipe",
    "in_process",
    "in_subprocess",
]
