"""How a model's engine is configured: the server's settings, and what the model's entry says over them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from onnxgen.engine.config import EngineConfig
from onnxgen.engine.speculation.options import NO_SPECULATION
from onnxgen.errors import ConfigError, OptionError
from onnxgen.facade.option_forms import read_speculation
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.foundations.settings_table import SETTINGS, WrongValueError
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.server.models.entry import ModelEntry
from onnxgen.server.settings import ServerSettings

SCHEDULER_FIELDS = tuple(f.name for f in fields(SchedulerConfig))
ENGINE_FIELDS = tuple(f.name for f in fields(EngineConfig) if f.name != "scheduler")


def engine_config(entry: ModelEntry, settings: ServerSettings, runtime: RuntimeConfig) -> EngineConfig:
    """How requests share a model.

    Args:
        entry: The model; its ``engine`` wins over the settings.
        settings: How the server serves.
        runtime: How the model is run.

    Raises:
        ConfigError: A field is unknown or its value wrong; the message names model and field.
    """
    said: dict[str, Any] = dict(entry.engine)
    for name in said:
        known = (*ENGINE_FIELDS, *SCHEDULER_FIELDS)
        if name not in known:
            raise ConfigError(f"model {entry.id!r}: engine has no field {name!r}{did_you_mean(name, known)}")
    if {"cache_mb", "cache_tokens"} & said.keys():  # one of them, and not the server's other
        said = {"cache_mb": None, "cache_tokens": None, **said}
    asked: dict[str, Any] = {**_of_settings(settings), **said}
    try:
        asked["speculation"] = read_speculation(asked["speculation"]) or NO_SPECULATION
        return EngineConfig(
            scheduler=_scheduler({n: asked[n] for n in SCHEDULER_FIELDS if n in asked}, runtime),
            **{n: asked[n] for n in ENGINE_FIELDS if n in asked},
        )
    except (ConfigError, OptionError, TypeError) as cause:
        raise ConfigError(f"model {entry.id!r}: engine: {cause}") from cause


def runtime_config(entry: ModelEntry, runtime: RuntimeConfig) -> RuntimeConfig:
    """How a model is run.

    Args:
        entry: The model; its ``runtime`` wins.
        runtime: What the server was started with.

    Raises:
        ConfigError: A field is unknown or its value wrong; the message names model and field.
    """
    changes: dict[str, Any] = {}
    for name, value in entry.runtime.items():
        if name not in SETTINGS:
            raise ConfigError(
                f"model {entry.id!r}: runtime has no field {name!r}{did_you_mean(name, SETTINGS)}"
            )
        try:
            changes[name] = SETTINGS[name].accept(value)
        except WrongValueError as cause:
            raise ConfigError(f"model {entry.id!r}: runtime.{name} is {value!r:.60}; {cause}") from cause
    return replace(runtime, **changes)


def _of_settings(settings: ServerSettings) -> dict[str, Any]:
    said: dict[str, Any] = {
        "max_seqs": settings.max_seqs,
        "max_waiting": settings.max_waiting,
        "max_step_tokens": settings.max_step_tokens,
        "policy": settings.policy,
        "max_seq_tokens": settings.context,
        "cache_mb": settings.cache_mb,
        "cache_tokens": settings.cache_tokens,
        "prefix_reuse": settings.prefix_reuse,
        "host_tier_mb": settings.host_tier_mb,
        "disk_tier_mb": settings.disk_tier_mb,
        "disk_tier_dir": settings.disk_tier_dir,
        "strict": settings.strict,
        "speculation": settings.speculation,
    }
    return said


def _scheduler(asked: dict[str, Any], runtime: RuntimeConfig) -> SchedulerConfig:
    chunk = asked.setdefault("chunk_tokens", runtime.prefill_chunk_tokens)
    if asked.get("max_step_tokens") is None:
        asked["max_step_tokens"] = max(chunk, asked["max_seqs"])
    return SchedulerConfig(**asked)
