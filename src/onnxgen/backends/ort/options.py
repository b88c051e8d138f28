"""ONNX Runtime session options and providers, from the model folder and the run's configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from onnxgen.backends.base import DecoderModel, ProviderSpec
from onnxgen.errors import ConfigError
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.foundations.suggest import did_you_mean

SessionOptions = Any  # onnxruntime.SessionOptions, which has no type information

CPU_PROVIDER = "CPUExecutionProvider"
_MOST_THREADS = 256  # more than that only on machines with many processors
_PROVIDER_SUFFIX = "ExecutionProvider"

_GRAPH_LEVELS = (
    "ORT_DISABLE_ALL",
    "ORT_ENABLE_BASIC",
    "ORT_ENABLE_EXTENDED",
    "ORT_ENABLE_LAYOUT",
    "ORT_ENABLE_ALL",
)
# Ours to ONNX Runtime's severities. Its warnings are for people who write graphs, its errors reach ours.
_LOG_SEVERITIES = MappingProxyType({"DEBUG": 1, "INFO": 2, "WARNING": 4, "ERROR": 4, "CRITICAL": 4})
# typed settings of a folder's session_options, and the attribute that each one sets
_TYPED: Mapping[str, tuple[type, str]] = MappingProxyType(
    {
        "intra_op_num_threads": (int, "intra_op_num_threads"),
        "inter_op_num_threads": (int, "inter_op_num_threads"),
        "enable_cpu_mem_arena": (bool, "enable_cpu_mem_arena"),
        "enable_mem_pattern": (bool, "enable_mem_pattern"),
        "log_id": (str, "logid"),
        "log_severity_level": (int, "log_severity_level"),
        "log_verbosity_level": (int, "log_verbosity_level"),
        "use_deterministic_compute": (bool, "use_deterministic_compute"),
    }
)
# settings of the folder that the metadata layer has already turned into ProviderSpecs
_READ_ELSEWHERE = frozenset({"provider_options", "providers"})


def make_session_options(model: DecoderModel, config: RuntimeConfig) -> SessionOptions:
    """Session options: ONNX Runtime's defaults, then the folder's, then the run's.

    Raises:
        ConfigError: A setting of the folder is unknown or of the wrong type.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = _LOG_SEVERITIES.get(config.log_level.upper(), 4)
    for key, value in model.session_options.items():
        _set_folder_option(options, key, value, model)
    if config.threads is not None:
        options.intra_op_num_threads = _thread_count(config.threads, "threads", least=1)
    if config.inter_op_threads is not None:
        options.inter_op_num_threads = _thread_count(config.inter_op_threads, "inter_op_threads", least=1)
        if config.inter_op_threads > 1:
            options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    if not config.spinning:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return options


def refuse_cache_type(config: RuntimeConfig) -> None:
    """Refuse a type of keys and values: they have the graph's.

    Raises:
        ConfigError: Naming it.
    """
    if config.kv_cache_dtype != "auto":
        raise ConfigError(
            f"kv_cache_dtype is {config.kv_cache_dtype!r}; with ONNX Runtime keys and values have the type that the "
            "graph gives them: leave it at 'auto', or use backend 'native'"
        )


def choose_providers(
    model: DecoderModel, config: RuntimeConfig, available: Sequence[str]
) -> tuple[ProviderSpec, ...]:
    """Execution providers in order of preference; the CPU always ends the list.

    Args:
        model: Its providers are taken where the run names none.
        config: Its providers and options win.
        available: Providers that this ONNX Runtime has.

    Raises:
        ConfigError: A provider is not available, or the CPU provider was given options.
    """
    asked = [ProviderSpec(name) for name in config.providers] or list(model.providers)
    chosen: dict[str, dict[str, str]] = {}
    for spec in asked:
        chosen[provider_name(spec.name, available)] = dict(spec.options)
    for name, options in config.provider_options.items():
        full = provider_name(name, available)
        if full not in chosen and full != CPU_PROVIDER:
            raise ConfigError(
                f"options were given for provider {name!r}, which does not run this model; "
                f"providers are {', '.join(chosen) or CPU_PROVIDER}"
            )
        chosen.setdefault(full, {}).update(options)
    if chosen.get(CPU_PROVIDER):
        raise ConfigError(
            f"the CPU provider takes no options, got {', '.join(sorted(chosen[CPU_PROVIDER]))}; "
            "threads and the like are session options"
        )
    chosen.setdefault(CPU_PROVIDER, {})
    return tuple(ProviderSpec(name, options) for name, options in chosen.items())


def provider_name(name: str, available: Sequence[str]) -> str:
    """The full name of a provider that may be given short and in any case (``cpu``, ``cuda``).

    Raises:
        ConfigError: This ONNX Runtime has no such provider.
    """
    short = {full.removesuffix(_PROVIDER_SUFFIX).lower(): full for full in available}
    found = short.get(name.lower().removesuffix(_PROVIDER_SUFFIX.lower()))
    if found is None:
        raise ConfigError(
            f"execution provider {name!r} is not in this ONNX Runtime; available: {', '.join(available)}"
            f"{did_you_mean(name.lower(), short)}"
        )
    return found


def _set_folder_option(options: SessionOptions, key: str, value: Any, model: DecoderModel) -> None:
    where = f"session option {key!r} of {model.path}"
    if key in _READ_ELSEWHERE:
        return
    special = _SPECIAL.get(key)
    if special is not None:
        if not isinstance(value, str):
            raise ConfigError(f"{where} must be a string, got {value!r}")
        special(options, value, where)
    elif key in _TYPED:
        kind, attribute = _TYPED[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ConfigError(f"{where} must be {kind.__name__}, got {value!r}")
        if attribute.endswith("num_threads"):
            value = _thread_count(value, where, least=0)  # 0: as many as ONNX Runtime likes
        setattr(options, attribute, value)
    elif isinstance(value, str):
        options.add_session_config_entry(key, value)
    else:
        raise ConfigError(
            f"{where} is unknown and not a string (only strings become ONNX Runtime configuration entries), "
            f"got {value!r}{did_you_mean(key, [*_TYPED, *_SPECIAL])}"
        )


def _thread_count(count: int, where: str, *, least: int) -> int:
    most = max(_MOST_THREADS, 4 * (os.cpu_count() or 1))
    if not least <= count <= most:
        raise ConfigError(
            f"{where} must be between {least} and {most} on this machine of {os.cpu_count()} processors, "
            f"got {count}"
        )
    return count


def _set_graph_level(options: SessionOptions, value: str, where: str) -> None:
    import onnxruntime as ort

    level = value if value.startswith("ORT_") else f"ORT_{value}"
    if level not in _GRAPH_LEVELS:
        raise ConfigError(f"{where} must be one of {', '.join(_GRAPH_LEVELS)}, got {value!r}")
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)


def _set_profiling(options: SessionOptions, value: str, where: str) -> None:
    del where
    options.enable_profiling = True
    options.profile_file_prefix = value


def _add_library(options: SessionOptions, value: str, where: str) -> None:
    try:
        options.register_custom_ops_library(value)
    except Exception as cause:  # ONNX Runtime raises many kinds here, all mean the library is unusable
        raise ConfigError(f"{where}: {value} cannot be loaded: {cause}") from cause


_SPECIAL: Mapping[str, Callable[[Any, str, str], None]] = MappingProxyType(
    {
        "graph_optimization_level": _set_graph_level,
        "enable_profiling": _set_profiling,
        "custom_ops_library": _add_library,
    }
)
