"""`EngineConfig`: everything that configures an engine, whatever the model."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from onnxgen.engine.speculation.options import NO_SPECULATION, Speculation
from onnxgen.errors import ConfigError
from onnxgen.scheduler.config import SchedulerConfig, check_count, check_switch


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Everything that configures an engine.

    Attributes:
        scheduler: Budgets of a step, policy and preemption. Can be changed while the engine runs.
        max_seq_tokens: The longest sequence, prompt and answer together; None is the model's context.
        cache_mb: Memory for keys and values in MiB; None takes what ``cache_tokens`` says, and without that a
            quarter of the memory that is available, or what ``max_seqs`` sequences can fill if that is less.
        cache_tokens: The same in token positions; not together with ``cache_mb``.
        prefix_reuse: What finished and running sequences have computed is used again by those that begin alike.
        host_tier_mb: Memory for blocks that leave the cache (swapped sequences, evicted prefixes), in MiB.
        disk_tier_mb: Room for such blocks in a folder, in MiB, once ``host_tier_mb`` is full.
        disk_tier_dir: The folder; goes with ``disk_tier_mb``.
        strict: The same tokens alone and in a crowd on backends too whose results depend on what else is in a step:
            sequences then take part one by one, prompts are cut at fixed places, and no prefix is reused, which is
            slow. Changes nothing on a backend that is batch invariant.
        speculation: For requests that do not say: whether tokens are guessed ahead.
        trace: A file for the protocol trace, see `onnxgen.engine.trace`; None: none is written.
    """

    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    max_seq_tokens: int | None = None
    cache_mb: int | None = None
    cache_tokens: int | None = None
    prefix_reuse: bool = True
    host_tier_mb: int = 0
    disk_tier_mb: int = 0
    disk_tier_dir: str | os.PathLike[str] | None = None
    strict: bool = False
    trace: str | os.PathLike[str] | None = None
    speculation: Speculation = NO_SPECULATION

    def __post_init__(self) -> None:
        """Check ranges and combinations.

        Raises:
            ConfigError: Naming the field, its value and the range.
        """
        for name in ("max_seq_tokens", "cache_mb", "cache_tokens"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least=1)
        for name in ("host_tier_mb", "disk_tier_mb"):
            check_count(name, getattr(self, name), least=0)
        for name in ("prefix_reuse", "strict"):
            check_switch(name, getattr(self, name))
        for name in ("disk_tier_dir", "trace"):
            path: object = getattr(self, name)
            if path is not None and not isinstance(path, str | os.PathLike):
                raise ConfigError(f"{name} is {path!r}; it must be a path")
        if not isinstance(self.speculation, Speculation):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may have no checker
            raise ConfigError(f"speculation is {self.speculation!r:.60}; it must be a Speculation")
        if self.cache_mb is not None and self.cache_tokens is not None:
            raise ConfigError(
                f"cache_mb={self.cache_mb} and cache_tokens={self.cache_tokens} both size the cache; give one of them"
            )
        if self.disk_tier_mb and self.disk_tier_dir is None:
            raise ConfigError(
                f"disk_tier_mb={self.disk_tier_mb} needs disk_tier_dir, the folder for the blocks"
            )
        if self.disk_tier_dir is not None and not self.disk_tier_mb:
            raise ConfigError(
                f"disk_tier_dir={os.fspath(self.disk_tier_dir)!r} needs disk_tier_mb, which says how much may lie there"
            )
