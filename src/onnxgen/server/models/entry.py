"""`ModelEntry`: what an operator says of one model: where it is, what clients call it, how it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Task = Literal["auto", "generate", "embed"]


def _nothing() -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model that a server offers.

    Attributes:
        id: What clients call it; may have slashes.
        source: Where it is: what `AsyncLLM` or `Embedder` take.
        aliases: Other names that mean it.
        task: What it is for; ``auto`` finds out: an encoder's folder gives vectors, anything else writes.
        preload: Load it when the server starts; otherwise when it is first asked for.
        warm_up: Let it answer once before it counts as loaded.
        keep_alive_s: Unload it when nobody asked for so many seconds; None: as the server's settings say.
        precision: Of a build, if one is needed.
        draft_model: A smaller model of the same vocabulary that guesses tokens ahead.
        adapters: Low-rank adapters by name, each a path.
        defaults: Fields of `GenerationOptions` for requests that do not say.
        engine: Fields of `EngineConfig` and `SchedulerConfig`, over what the server's settings say.
        runtime: Fields of `RuntimeConfig`, over what the server was started with.
        chat_template: A file with a chat template to use instead of its own.
        tool_call_format: How it writes calls of tools, where its template does not show it.
    """

    id: str
    source: str
    aliases: tuple[str, ...] = ()
    task: Task = "auto"
    preload: bool = True
    warm_up: bool = True
    keep_alive_s: float | None = None
    precision: str = "int4"
    draft_model: str | None = None
    adapters: Mapping[str, str] = field(default_factory=_nothing)
    defaults: Mapping[str, Any] = field(default_factory=_nothing)
    engine: Mapping[str, Any] = field(default_factory=_nothing)
    runtime: Mapping[str, Any] = field(default_factory=_nothing)
    chat_template: str | None = None
    tool_call_format: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that clients may call it."""
        return (self.id, *self.aliases)
