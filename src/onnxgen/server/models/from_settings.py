"""`open_table`: the models that the settings of a server name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnxgen.errors import ConfigError
from onnxgen.foundations.process_memory import give_back_memory
from onnxgen.foundations.progress import SILENT, Progress
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.server.models.engine_options import engine_config, runtime_config
from onnxgen.server.models.entry import ModelEntry
from onnxgen.server.models.limits import TableLimits
from onnxgen.server.models.loader import ModelLoader
from onnxgen.server.models.models_file import check_defaults, read_models
from onnxgen.server.models.table import Loader, ModelTable
from onnxgen.server.settings import ServerSettings

_MIB = 1 << 20
_OF_ONE_MODEL = ("served_model_name", "draft_model", "adapter", "chat_template", "tool_call_format")


def open_table(
    settings: ServerSettings,
    runtime: RuntimeConfig,
    *,
    progress: Progress = SILENT,
    watched: Callable[[Loader], Loader] = lambda load: load,
) -> ModelTable:
    """The models of a server, none of them loaded.

    Args:
        settings: How it serves.
        runtime: How models are run.
        progress: Shows what takes time while one is loaded.
        watched: Makes what loads models a loader that somebody watches.

    Raises:
        ConfigError: The settings, or the file that they name, are wrong.
    """
    entries = entries_of(settings)
    for entry in entries:  # what is wrong is told before anything is loaded
        engine_config(entry, settings, runtime_config(entry, runtime))
    return ModelTable(
        entries,
        load=watched(ModelLoader(settings, runtime, progress=progress)),
        limits=limits_of(settings),
        wait_s=settings.model_wait_s,
        hang_s=settings.engine_hang_s,
        tidy=give_back_memory,
    )


def limits_of(settings: ServerSettings) -> TableLimits:
    """How much may be in memory."""
    memory_mb = settings.models_memory_mb
    return TableLimits(
        max_loaded=settings.max_loaded_models,
        memory_bytes=None if memory_mb is None else memory_mb * _MIB,
        keep_alive_s=settings.model_keep_alive_s,
    )


def entries_of(settings: ServerSettings) -> tuple[ModelEntry, ...]:
    """What the settings say of models.

    Raises:
        ConfigError: They name none, or one and several; or something that they say is wrong.
    """
    if settings.model is not None and settings.models is not None:
        raise ConfigError(
            f"both MODEL ({settings.model}) and --models ({settings.models}) say what to serve; give one of them"
        )
    if settings.model is not None:
        return (_single(settings, settings.model),)
    if settings.models is None:
        raise ConfigError(
            "there is nothing to serve; name a MODEL, or several with --models (a TOML file or a folder)"
        )
    for name in _OF_ONE_MODEL:
        if getattr(settings, name):
            raise ConfigError(
                f"--{name.replace('_', '-')} is about the one model, but --models names several; say it in its file"
            )
    defaults = _pairs("default", settings.default, parsed=True)
    check_defaults("--default", defaults)
    return tuple(
        replace(
            entry,
            preload=entry.preload and settings.preload,
            warm_up=entry.warm_up and settings.warm_up,
            defaults={**defaults, **entry.defaults},
        )
        for entry in read_models(settings.models)
    )


def name_of(source: str) -> str:
    """What clients call a model of which nobody says so: the end of its path, or its name without where it is from."""
    for prefix in ("hf:", "pypi:"):
        if source.startswith(prefix):
            return source.removeprefix(prefix).partition("@")[0]
    path = Path(source).expanduser()
    if not path.exists():
        return source
    path = path.resolve()
    return path.stem if path.is_file() else path.name


def _single(settings: ServerSettings, source: str) -> ModelEntry:
    id, *aliases = settings.served_model_name or (name_of(source),)
    template = settings.chat_template
    defaults = _pairs("default", settings.default, parsed=True)
    check_defaults("--default", defaults)
    return ModelEntry(
        id=id,
        source=source,
        aliases=tuple(aliases),
        preload=settings.preload,
        warm_up=settings.warm_up,
        precision=settings.precision,
        draft_model=settings.draft_model,
        adapters=_pairs("adapter", settings.adapter, parsed=False),
        defaults=defaults,
        chat_template=None if template is None else str(template),
        tool_call_format=settings.tool_call_format,
    )


def _pairs(setting: str, texts: tuple[str, ...], *, parsed: bool) -> dict[str, Any]:
    """``NAME=VALUE`` by name; values are JSON where they can be read so, else texts."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise ConfigError(f"--{setting} is {text!r:.80}; NAME=VALUE was expected")
        found[name.strip()] = _value(value.strip()) if parsed else value.strip()
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
