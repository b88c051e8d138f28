"""What `/v1/status` and `/v1/resources` give. What is not known or was not measured is not there."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict

from onnxgen.server.schemas.models import State

Prefixes = Annotated[
    int, Query(description="Beginnings that each model's cache knows, at most.", ge=0, le=1024)
]


class _Shown(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class KnownPrefix(_Shown):
    """A beginning of whole cache blocks that requests may share."""

    key: str
    """Of all tokens up to its end: blake2b-128 over the key before and the tokens of one block as int64."""
    tokens: int
    in_use: bool


class ModelLoad(_Shown):
    """What a model does now, for those who send requests to several servers."""

    id: str
    aliases: list[str]
    state: State
    task: str
    in_use: int
    """Requests that use it or wait for it."""
    context_length: int | None = None
    running: int | None = None
    """Sequences that take part in steps."""
    waiting: int | None = None
    """Sequences that wait for their first step, or gave way to others."""
    kv_usage: float | None = None
    """Share of cache blocks that sequences hold, 0 to 1."""
    kv_free_tokens: int | None = None
    """Tokens that the cache has room for, what it keeps for later requests counted as room."""
    prompt_tokens_per_s: float | None = None
    """Over the last ten seconds, as the two below."""
    generation_tokens_per_s: float | None = None
    prefix_hit_rate: float | None = None
    """Share of prompt tokens that needed no computing."""
    age_s: float | None = None
    """How old the engine's numbers are."""
    block_size: int | None = None
    """Tokens of a block; with `prefixes`."""
    prefixes: list[KnownPrefix] | None = None
    """Those used last, latest first; where they are asked for."""


class ServerStatus(_Shown):
    """How a server is, for those who send requests to several."""

    object: Literal["status"] = "status"
    node_id: str
    version: str
    status: Literal["ok", "loading", "unhealthy", "draining"]
    reason: str | None = None
    draining: bool
    """It ends what it does and takes nothing new."""
    started_at: int
    """Seconds since 1970."""
    uptime_s: float
    in_progress: int
    """Requests for answers or vectors that have not ended."""
    models: list[ModelLoad]


class CacheGroup(_Shown):
    """Blocks of one kind of layers: those that see the whole sequence, or a window of it."""

    blocks: int
    in_use: int
    cached: int
    """Kept for requests that begin alike; they make room when it is needed."""
    free: int
    block_bytes: int
    capacity_bytes: int
    used_bytes: int


class Tiers(_Shown):
    """What left the cache and can come back."""

    memory_used_bytes: int
    memory_limit_bytes: int
    disk_used_bytes: int
    disk_limit_bytes: int


class ModelResources(_Shown):
    """What a model may take, and takes."""

    id: str
    memory_bytes: int | None = None
    """Its engine's process, and what loading added to the server's, in RAM."""
    engine_pid: int | None = None
    engine_bytes: int | None = None
    """Its engine's process, in RAM."""
    backend: str | None = None
    threads: int | None = None
    """As configured; otherwise the backend chooses."""
    context_length: int | None = None
    max_seq_tokens: int | None = None
    """The longest sequence that the cache has room for, prompt and answer together."""
    cache_tokens: int | None = None
    block_size: int | None = None
    full: CacheGroup | None = None
    window: CacheGroup | None = None
    tiers: Tiers | None = None
    max_seqs: int | None = None
    max_step_tokens: int | None = None
    max_waiting: int | None = None


class ModelBudget(_Shown):
    """Limits of all models together."""

    max_loaded_models: int | None = None
    models_memory_bytes: int | None = None
    keep_alive_s: float | None = None
    loaded: int
    memory_bytes: int
    """Of all loaded models, as far as it was measured."""


class ServerResources(_Shown):
    """What a server may take, and takes."""

    object: Literal["resources"] = "resources"
    server_pid: int
    server_bytes: int | None = None
    """The server's own process, in RAM."""
    server_peak_bytes: int | None = None
    server_threads: int
    logical_cores: int
    cpu_quota: float | None = None
    """Processors that the container may use."""
    memory_limit_bytes: int | None = None
    """Of the container."""
    memory_left_bytes: int | None = None
    """Of the container."""
    sessions: int
    max_sessions: int
    session_bytes: int
    budget: ModelBudget
    models: list[ModelResources]
