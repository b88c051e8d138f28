"""One frozen value with everything that configures a run: `RuntimeConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs


def default_cache_dir() -> Path:
    """The user's cache folder for downloads and built models."""
    return Path(platformdirs.user_cache_dir("onnxgen", appauthor=False))


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Everything that configures a run, whatever the model.

    Attributes:
        backend: Which backend executes the model: ``auto`` or a registered name (``native``, ``ort``).
        threads: Threads for one operator; None lets the backend decide (physical cores).
        inter_op_threads: Threads across operators; None lets the backend decide.
        spinning: Whether worker threads spin while they wait. Faster alone, unkind to neighbours.
        providers: Execution providers in order; empty takes the model folder's own.
        provider_options: Provider name to its options.
        cache_dir: Where downloads and built models live.
        prefill_chunk_tokens: The longest piece of a prompt that one step processes.
        memory_limit_mb: Cap on cache memory (KV) in MiB; None for no cap.
        kv_cache_dtype: What keys and values are kept as: ``auto`` (what the backend finds exact enough: 16 bits in the
            native one, the graph's type in ONNX Runtime), or ``int8``, which takes half the memory of 16 bits and only the
            native backend has.
        offline: Never fetch anything. Also set by ``HF_HUB_OFFLINE``.
        log_level: Name of a standard logging level.
    """

    backend: str = "auto"
    threads: int | None = None
    inter_op_threads: int | None = None
    spinning: bool = True
    providers: tuple[str, ...] = ()
    provider_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    cache_dir: Path = field(default_factory=default_cache_dir)
    prefill_chunk_tokens: int = 512
    memory_limit_mb: int | None = None
    kv_cache_dtype: str = "auto"
    offline: bool = False
    log_level: str = "WARNING"

    def __post_init__(self) -> None:
        """Take a folder as a text, too."""
        object.__setattr__(self, "cache_dir", Path(self.cache_dir))
