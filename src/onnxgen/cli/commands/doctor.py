"""``onnxgen doctor``: versions, machine, cache, configuration, and what would run here."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from onnxgen.cli.facts import Facts, facts_text
from onnxgen.cli.native_facts import native_facts
from onnxgen.cli.options import Backend, ConfigFile, Json, LogLevel, Threads, Verbose
from onnxgen.cli.settings import load_settings
from onnxgen.foundations.disk import format_bytes, free_disk_bytes, size_on_disk

if TYPE_CHECKING:
    from onnxgen.foundations.config_sources import ResolvedConfig

_PACKAGES = (
    *("onnxgen", "onnxruntime", "onnx", "onnx-ir", "numpy", "ml-dtypes", "tokenizers", "safetensors", "gguf"),
    *("jinja2", "typer", "rich", "prompt-toolkit"),
)
# package to the extra that brings it
_OPTIONAL = {"huggingface-hub": "hub", "onnxruntime-genai": "interop"}


def doctor(
    ctx: typer.Context,
    json_output: Json = False,
    backend: Backend = None,
    threads: Threads = None,
    config: ConfigFile = None,
    log_level: LogLevel = None,
    verbose: Verbose = False,
) -> None:
    """Show versions, machine, cache and settings."""
    resolved = load_settings(
        ctx, config_file=config, log_level=log_level, verbose=verbose, backend=backend, threads=threads
    )
    facts: Facts = {
        "versions": {
            "python": f"{platform.python_version()} ({sys.executable})",
            **{name: _version(name) for name in _PACKAGES},
        },
        "optional": {
            name: _version(name) or f"not installed; pip install 'onnxgen[{extra}]'"
            for name, extra in _OPTIONAL.items()
        },
        "machine": _machine_facts(),
        "native_kernels": native_facts(resolved.config.threads),
        "backends": _backend_facts(),
        "package_tools": _tool_facts(),
        "cache": _cache_facts(resolved.config.cache_dir),
        "configuration": _configuration(resolved),
    }
    if json_output:
        typer.echo(json.dumps(facts, default=str))
        return
    facts["configuration"] = {
        name: f"{_shown(entry['value'])}  ({entry['origin']})"
        for name, entry in facts["configuration"].items()
    }
    typer.echo(facts_text(facts))


def _shown(value: object) -> str:
    return "not set" if value is None or value in ((), {}) else str(value)


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _machine_facts() -> Facts:
    from onnxgen.foundations.cpuinfo import default_threads, detect_cpu, detect_memory

    cpu, memory = detect_cpu(), detect_memory()
    return {
        "system": f"{platform.system()} {platform.release()}",
        "cpu": cpu.model_name,
        "architecture": cpu.architecture,
        "cpu_features": sorted(cpu.features),
        "physical_cores": cpu.physical_cores,
        "logical_cores": cpu.logical_cores,
        "quota_cores": cpu.quota_cores,
        "default_threads": default_threads(cpu),
        "caches": {f"L{c.level} {c.kind}": format_bytes(c.size_bytes) for c in cpu.caches},
        "memory_bytes": memory.total_bytes,
        "available_memory_bytes": memory.available_bytes,
    }


def _backend_facts() -> Facts:
    from onnxgen.backends import backend_names
    from onnxgen.backends.ort.providers import available_providers

    return {
        "default": backend_names()[0],
        "available": list(backend_names()),
        "onnxruntime_providers": list(available_providers()),
    }


def _tool_facts() -> list[str]:
    from onnxgen.catalog.packages import available_tools

    tools = [tool.name for tool in available_tools()]
    return tools or ["none: pull needs pip or uv; run 'python -m ensurepip'"]


def _cache_facts(cache_dir: Path) -> Facts:
    from onnxgen.catalog.layout import checkpoints_folder, models_folder

    existing = next(path for path in (cache_dir, *cache_dir.parents) if path.exists())
    return {
        "folder": str(cache_dir),
        "writable": os.access(existing, os.W_OK),
        "checkpoints_bytes": size_on_disk(checkpoints_folder(cache_dir)),
        "models_bytes": size_on_disk(models_folder(cache_dir)),
        "free_bytes": free_disk_bytes(cache_dir),
    }


def _configuration(resolved: ResolvedConfig) -> Facts:
    return {
        field.name: {
            "value": getattr(resolved.config, field.name),
            "origin": resolved.origins.get(field.name, "default"),
        }
        for field in dataclasses.fields(resolved.config)
    }
