"""`shown_settings`: how a server is configured, without its secrets."""

from __future__ import annotations

import dataclasses
import platform
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.server.models.entry import ModelEntry
from onnxgen.server.protection.keys import name_in
from onnxgen.server.settings import ServerSettings
from onnxgen.version import __version__

HIDDEN = "***"
_SECRET = ("api_key", "admin_key")
_SECRET_WORDS = ("key", "token", "secret", "password", "credential")
_PACKAGES = (
    "onnxruntime",
    "onnx",
    "numpy",
    "numba",
    "tokenizers",
    "llguidance",
    "fastapi",
    "starlette",
    "uvicorn",
)


def shown_settings(settings: ServerSettings) -> dict[str, Any]:
    """All settings; of keys only whose they are."""
    shown = settings.model_dump(mode="json")
    for name in _SECRET:
        shown[name] = [_without_key(key) for key in getattr(settings, name)]
    return shown


def shown_entry(entry: ModelEntry) -> dict[str, Any]:
    """What the operator says of a model."""
    return hidden(dataclasses.asdict(entry))


def shown_runtime(llm: AsyncLLM) -> dict[str, Any]:
    """How a loaded model is run."""
    return hidden(dataclasses.asdict(llm.config))


def versions() -> dict[str, str]:
    """Of what a server is made of; what is not installed is not there."""
    found = {"onnxgen": __version__, "python": platform.python_version(), "platform": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    found["executable"] = Path(sys.executable).name
    return found


def hidden(value: Any, name: str = "") -> Any:
    """A value in JSON's types; texts whose name says that they are secret are not shown."""
    if isinstance(value, Mapping):
        return {str(key): hidden(item, str(key)) for key, item in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [hidden(item, name) for item in cast(list[Any], value)]
    if value is None or isinstance(value, bool | int | float):
        return value
    words = name.lower().replace("-", "_").split("_")
    return HIDDEN if any(word in words for word in _SECRET_WORDS) else str(value)


def _without_key(given: str) -> str:
    name = name_in(given)
    return HIDDEN if name is None else f"{name}={HIDDEN}"
