"""How much memory one cache should take, by configuration or by what this machine has."""

from __future__ import annotations

from onnxgen.foundations.cpuinfo import detect_memory
from onnxgen.foundations.runtime_config import RuntimeConfig

_SHARE = 4


def cache_budget_bytes(config: RuntimeConfig) -> int | None:
    """What a cache should take at most: the configured limit, else a quarter of the memory that is free.

    None if neither is known.
    """
    if config.memory_limit_mb is not None:
        return config.memory_limit_mb << 20
    available = detect_memory().available_bytes
    return None if available is None else available // _SHARE
