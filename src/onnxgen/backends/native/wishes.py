"""Options that a folder or a run sets and that only mean something to ONNX Runtime."""

from __future__ import annotations

from types import MappingProxyType

from onnxgen.backends.base import DecoderModel
from onnxgen.errors import ConfigError
from onnxgen.foundations.runtime_config import RuntimeConfig

_CPU_NAMES = frozenset(("cpu", "cpuexecutionprovider"))
_CACHE_BITS = MappingProxyType({"auto": 16, "int8": 8})
_OF_SESSIONS = ("custom_ops_library", "enable_profiling")


def wishes_beyond(model: DecoderModel, config: RuntimeConfig) -> str | None:
    """What is asked for that the native backend does not have; None where it has everything."""
    providers = config.providers or tuple(provider.name for provider in model.providers)
    others = [name for name in providers if name.lower() not in _CPU_NAMES]
    if others:
        return f"the execution provider {others[0]} is asked for"
    if model.embedding is not None:
        return f"ids are looked up in a graph of their own ({model.embedding.path.name})"
    if config.inter_op_threads is not None:
        return "inter_op_threads is set"
    own = [name for name in _OF_SESSIONS if model.session_options.get(name)]
    return f"the folder sets the session option {own[0]}" if own else None


def refuse_wishes(model: DecoderModel, config: RuntimeConfig) -> None:
    """Refuse what the native backend does not have.

    Raises:
        ConfigError: Naming it.
    """
    wish = wishes_beyond(model, config)
    if wish is not None:
        raise ConfigError(f"{wish}, which the native backend does not have; use backend 'ort'")


def cache_bits(config: RuntimeConfig) -> int:
    """Bits of each number of keys and values in the cache.

    Raises:
        ConfigError: Another type than there is.
    """
    bits = _CACHE_BITS.get(config.kv_cache_dtype)
    if bits is None:
        raise ConfigError(
            f"kv_cache_dtype is {config.kv_cache_dtype!r}; the native backend has {' and '.join(_CACHE_BITS)}"
        )
    return bits


def thread_count(model: DecoderModel, config: RuntimeConfig, default: int) -> int:
    """Threads of a step: the run's, else the folder's, else the machine's.

    Raises:
        ConfigError: Fewer than one.
    """
    if config.threads is not None:
        if config.threads < 1:
            raise ConfigError(f"threads must be at least 1, got {config.threads}")
        return config.threads
    own = model.session_options.get("intra_op_num_threads")
    return own if isinstance(own, int) and own > 0 else default
