"""`OutsidePool`: where content of blocks goes that leaves the cache, as the configuration allows."""

from __future__ import annotations

from pathlib import Path

from onnxgen.backends.base import KVCache
from onnxgen.engine.block_mover import CacheBlockMover
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.trace import EngineTrace
from onnxgen.engine.traced_mover import TracedMover
from onnxgen.kvcache.tiers import Tiers
from onnxgen.scheduler.costs import PreemptionCosts

_MIB = 1 << 20


class OutsidePool:
    """Host memory and a folder for the content of blocks.

    Args:
        cache: Whose blocks they are.
        config: How much of each.
        costs: Told how long moving takes.
        trace: Told what moves; None: nobody is.

    Attributes:
        tiers: The accounting; None where the configuration gives no room.

    Raises:
        ConfigError: The folder cannot be made.
    """

    def __init__(
        self, cache: KVCache, config: EngineConfig, *, costs: PreemptionCosts, trace: EngineTrace | None
    ) -> None:
        self.tiers: Tiers | None = None
        self._mover: CacheBlockMover | None = None
        if not config.host_tier_mb and not config.disk_tier_mb:
            return
        self._mover = CacheBlockMover(
            cache,
            folder=None if config.disk_tier_dir is None else Path(config.disk_tier_dir),
            observe=costs.observe_swap,
        )
        self.tiers = Tiers(
            self._mover if trace is None else TracedMover(self._mover, trace),
            host_bytes=config.host_tier_mb * _MIB,
            disk_bytes=config.disk_tier_mb * _MIB,
        )

    def close(self) -> None:
        """Drop what is there, and remove the files. Calling it twice is harmless."""
        if self._mover is not None:
            self._mover.close()
