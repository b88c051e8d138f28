"""What a table says of its models: `ModelState`, `ModelStatus`, `TableHealth`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from onnxgen.server.models.entry import Task


class ModelState(Enum):
    """How a model is."""

    UNLOADED = "unloaded"
    LOADING = "loading"
    READY = "ready"
    RESTARTING = "restarting"
    UNLOADING = "unloading"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """How a model is, in numbers. None is what is not known, or not so.

    Attributes:
        id: What clients call it.
        aliases: Other names that mean it.
        state: How it is.
        task: What it does: ``generate`` or ``embed``; ``auto`` where nobody has looked yet.
        uses: Requests that use it or wait for it.
        pending: Requests that its engine has not ended.
        loaded_at: When it was ready, in seconds since 1970.
        load_s: How long that took.
        memory_bytes: What it takes, of the engine's process and of this one as far as that was measured.
        engine_pid: The engine's process.
        context_length: Tokens of prompt and answer together.
        restarts: How often its engine died and was made anew since it was loaded.
        unload_in_s: When it will be unloaded if nobody asks for it.
        error: Why it is not ready.
    """

    id: str
    aliases: tuple[str, ...]
    state: ModelState
    task: Task
    uses: int
    pending: int
    loaded_at: float | None
    load_s: float | None
    memory_bytes: int | None
    engine_pid: int | None
    context_length: int | None
    restarts: int
    unload_in_s: float | None
    error: str | None


@dataclass(frozen=True, slots=True)
class TableHealth:
    """Whether a server can answer.

    Attributes:
        status: ``ok``, ``loading`` (models are being loaded for the first time) or ``unhealthy`` (an engine died and is
            being made anew, or no model can be loaded).
        reason: Why not ``ok``.
        models: How each one is.
    """

    status: Literal["ok", "loading", "unhealthy"]
    reason: str | None
    models: Mapping[str, ModelState]
