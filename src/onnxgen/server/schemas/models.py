"""What `/v1/models`, `/health` and `/v1/admin` take and give."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Path
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
)

_CONFIG = ConfigDict(use_attribute_docstrings=True)
_STRICT = ConfigDict(use_attribute_docstrings=True, extra="forbid")

ModelId = Annotated[str, Path(description="An id or an alias; may have slashes.")]

State = Literal["unloaded", "loading", "ready", "restarting", "unloading", "failed"]


class ModelObject(BaseModel):
    """A model that requests may name."""

    model_config = _CONFIG

    id: str
    """What requests call it."""
    object: Literal["model"] = "model"
    type: Literal["model"] = "model"
    """The same, in Anthropic's words."""
    display_name: str
    """The id again, which Anthropic's clients show."""
    created: int
    """When it was loaded, else when the server began, in seconds since 1970."""
    created_at: AwareDatetime
    """The same as a date."""
    lifecycle: Literal["active"] = "active"
    """It can be asked for, as Anthropic's clients want to know."""
    owned_by: str = "onnxgen"
    aliases: list[str]
    """Other names that mean it."""
    state: State
    """Whether it is in memory. One that is not is loaded when it is asked for."""
    task: Literal["auto", "generate", "embed"]
    """Whether it writes or gives vectors; auto where nobody has looked yet."""
    max_model_len: int | None
    """Tokens of prompt and answer together; null until it was loaded once."""
    max_input_tokens: int | None
    """The same, in Anthropic's words."""
    adapters: list[str]
    """Adapters that requests may ask for."""


class ModelList(BaseModel):
    """Models: all of them, or a page."""

    model_config = _CONFIG

    object: Literal["list"] = "list"
    data: list[ModelObject]
    first_id: str | None
    """The first one's id; null if there is none."""
    last_id: str | None
    """The last one's id, after which the next page begins."""
    has_more: bool
    """Whether there are more in the direction that was asked for."""


class HealthReport(BaseModel):
    """Whether the server can answer."""

    model_config = _CONFIG

    status: Literal["ok", "loading", "unhealthy", "draining"]
    reason: str | None = None
    """Why not ok."""
    models: dict[str, State]
    """How each model is."""


class AdminModel(BaseModel):
    """How a model is. Null is what is not known, or not so."""

    model_config = _CONFIG

    id: str
    object: Literal["admin.model"] = "admin.model"
    aliases: list[str]
    source: str
    """Where it is."""
    state: State
    task: Literal["auto", "generate", "embed"]
    uses: int
    """Requests that use it or wait for it."""
    pending: int
    """Requests that its engine has not ended."""
    loaded_at: float | None
    """When it was ready, in seconds since 1970."""
    load_s: float | None
    """Seconds that loading it took."""
    memory_bytes: int | None
    """What it takes: its engine's process, and what was measured of this one."""
    engine_pid: int | None
    """Its engine's process."""
    context_length: int | None
    restarts: int
    """How often its engine was made anew since it was loaded."""
    unload_in_s: float | None
    """When it is unloaded if nobody asks for it."""
    error: str | None
    """Why it is not ready."""


class AdminModelList(BaseModel):
    """All models, and how many may be in memory."""

    object: Literal["list"] = "list"
    data: list[AdminModel]
    limits: TableLimitsReport


class TableLimitsReport(BaseModel):
    """How much may be in memory; null is no limit."""

    model_config = _CONFIG

    max_loaded_models: int | None
    memory_bytes: int | None
    keep_alive_s: float | None
    """Seconds after which a model that nobody asked for is unloaded."""
    used_bytes: int
    """What loaded models take."""
    loaded_models: int


class TableLimitsChange(BaseModel):
    """Limits to change; what is left out stays, null takes the limit away."""

    model_config = _STRICT

    max_loaded_models: PositiveInt | None = None
    memory_bytes: PositiveInt | None = None
    keep_alive_s: NonNegativeFloat | None = None


class EngineLimitsChange(BaseModel):
    """Budgets of a model's engine to change; what is left out stays."""

    model_config = _STRICT

    max_seqs: PositiveInt | None = Field(default=None)
    """Sequences that are computed together."""
    max_step_tokens: PositiveInt | None = None
    """Tokens of one step."""
    chunk_tokens: PositiveInt | None = None
    """Tokens of one prompt in one step."""
    max_waiting: NonNegativeInt | None = None
    """Requests that wait for their turn; null lets any number wait."""
    max_cache_bytes: PositiveInt | None = None
    """Cache that running sequences hold; null leaves it to the cache's size."""
    policy: Literal["fcfs", "priority", "fair"] = "fcfs"
    """Who goes first."""


class EngineLimitsReport(BaseModel):
    """Budgets of a model's engine."""

    id: str
    object: Literal["admin.limits"] = "admin.limits"
    max_seqs: int
    max_step_tokens: int
    chunk_tokens: int
    max_waiting: int | None
    max_cache_bytes: int | None
    policy: str
