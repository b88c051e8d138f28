"""How much running jobs take, and whether one more finds room: sums of sequences, bytes and blocks."""

from __future__ import annotations

from collections.abc import Sequence

from onnxgen.errors import ConfigError
from onnxgen.kvcache.manager import CacheManager
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.job import Job
from onnxgen.scheduler.overage import Overage

GROWTH_TOKENS = 16
"""A job is admitted when it, and all who run, can grow by so many tokens before anybody has to give way."""


class Room:
    """Budgets of one configuration over one cache.

    What a job is counted with is its demand: the tokens it has and a few more, or without preemption all that it
    may ever have, for each sequence it will fork into. A job that runs alone needs no leave of any budget but the
    pool, so that a configuration that became too small for it cannot stop it.
    """

    def __init__(self, config: SchedulerConfig, cache: CacheManager) -> None:
        """Budgets of ``config``.

        Raises:
            ConfigError: A budget in bytes over a cache that does not say how large its blocks are, or chunks that
                must be whole and do not fit what windowed layers have.
        """
        shape = cache.shape
        if config.max_cache_bytes is not None and not shape.block_bytes + shape.window_block_bytes:
            raise ConfigError(
                "max_cache_bytes is set, but the cache does not say how many bytes a block takes"
            )
        if config.solo and shape.window is not None and shape.window_blocks < shape.num_blocks:
            most = shape.window_blocks * shape.block_size - shape.window - shape.block_size
            if config.chunk_tokens > most:
                raise ConfigError(
                    f"solo cuts prompts into chunks of exactly chunk_tokens={config.chunk_tokens} tokens, but the "
                    f"{shape.window_blocks} blocks of windowed layers have room for {most} at once; lower chunk_tokens"
                )
        self.max_seqs = config.max_seqs
        self.max_bytes = config.max_cache_bytes
        self._reserve_all = config.preemption == "off"
        self._cache = cache
        self._shape = shape
        self._block_size = shape.block_size
        self._window_reach = 0 if shape.window is None else shape.window + config.chunk_tokens

    def seats(self, jobs: Sequence[Job]) -> int:
        """Sequences that ``jobs`` count as."""
        return sum([job.width for job in jobs])

    def free_seats(self, running: Sequence[Job]) -> int:
        """How many sequences may run besides ``running``."""
        return max(0, self.max_seqs - self.seats(running))

    def has_seat(self, job: Job, running: Sequence[Job]) -> bool:
        """Whether ``job`` may run beside ``running`` by the number of sequences."""
        return self.seats(running) + job.width <= self.max_seqs

    def bytes(self, jobs: Sequence[Job]) -> int:
        """Cache that ``jobs`` hold once all their tokens are computed, each counted whole."""
        return sum(self.bytes_of(len(job.tokens)) for job in jobs)

    def bytes_of(self, num_tokens: int) -> int:
        """Cache of a sequence of so many tokens."""
        shape = self._shape
        return (
            self._blocks(num_tokens) * shape.block_bytes
            + self._window_blocks(num_tokens) * shape.window_block_bytes
        )

    def spare_bytes(self, running: Sequence[Job]) -> int:
        """What those who run leave of the budget in bytes; there must be one."""
        assert self.max_bytes is not None
        return self.max_bytes - self.bytes(running)

    def bytes_of_draft(self, job: Job, num_tokens: int) -> int:
        """Cache that so many tokens behind those of ``job`` take while a step computes them."""
        known = self.bytes_of(len(job.tokens))
        copied = known if self._shape.exact else 0
        return copied + self.bytes_of(len(job.tokens) + num_tokens) - known

    def longest_draft(self, job: Job, most: int, *, spare_bytes: int) -> int:
        """How many of up to ``most`` tokens behind those of ``job`` fit into so many bytes."""
        while most > 0 and self.bytes_of_draft(job, most) > spare_bytes:
            most -= 1
        return most

    def overdrawn(self, running: Sequence[Job]) -> bool:
        """Whether those who run take more than they may, after growth or a smaller budget."""
        if self.seats(running) > self.max_seqs:
            return True
        if self.max_bytes is not None and self.bytes(running) > self.max_bytes:
            return True
        return self._reserve_all and not self._all_reserved(running)

    def within_budgets(self, job: Job, running: Sequence[Job]) -> bool:
        """Whether ``job`` may run beside ``running`` by the budgets of sequences and bytes."""
        if not running:
            return True
        if not self.has_seat(job, running):
            return False
        together = (*running, job)
        if self.max_bytes is not None:
            demand = sum(self.bytes_of(self._demand(other)) * self._copies(other) for other in together)
            if demand > self.max_bytes:
                return False
        return not self._reserve_all or self._all_reserved(together)

    def missing_blocks(self, job: Job, *, debt: int, reused: int, is_open: bool) -> int:
        """How many blocks more must be free for all that ``job`` demands.

        Args:
            job: Who would run.
            debt: Blocks that those who run will ask for, see `debt`.
            reused: Tokens of ``job`` that lie in blocks which others hold.
            is_open: Whether the cache knows the job already.
        """
        num_tokens = self._demand(job) - reused + debt * self._block_size
        return self._cache.missing_blocks(num_tokens, seq=job.id if is_open else None)

    def debt(self, job: Job, *, num_held: int) -> int:
        """Blocks that ``job``, which has ``num_held``, will ask for before it has what it demands."""
        return max(0, self._blocks(self._demand(job)) * self._copies(job) - num_held)

    def overage(self, running: Sequence[Job], jobs: Sequence[Job]) -> Overage:
        """By how much ``running`` takes more than it may, and which of ``jobs`` are larger than all there is."""
        return Overage(
            seqs=max(0, self.seats(running) - self.max_seqs),
            cache_bytes=0 if self.max_bytes is None else max(0, self.bytes(running) - self.max_bytes),
            too_large=tuple(
                job for job in jobs if job.width > self.max_seqs or not self.fits_alone(job, job.max_tokens)
            ),
        )

    def fits_alone(self, job: Job, num_tokens: int) -> bool:
        """Whether ``job`` could have ``num_tokens`` tokens if nobody else ran."""
        if not self._cache.fits_ever(num_tokens):
            return False
        if self.max_bytes is not None and self.bytes_of(num_tokens) > self.max_bytes:
            return False
        return not self._reserve_all or self._fits_reserved([(num_tokens, job.width)])

    def longest(self, job: Job) -> int:
        """The most tokens that ``job`` could have if nobody else ran."""
        fits, too_many = 0, self._cache.capacity_tokens + 1
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            fits, too_many = (middle, too_many) if self.fits_alone(job, middle) else (fits, middle)
        return fits

    def why(self, job: Job) -> str:
        """Which budget the longest sequence comes from, for messages."""
        if self.longest(job) == self._cache.capacity_tokens:
            return f"in {self._shape.num_blocks} blocks of {self._block_size}"
        if self._reserve_all and job.width > 1:
            return f"for each of {job.width} samples (preemption is off)"
        return f"in {self.max_bytes} bytes (max_cache_bytes)"

    def _demand(self, job: Job) -> int:
        if self._reserve_all:
            return max(job.max_tokens, len(job.tokens))
        known = len(job.tokens)
        return max(known, min(known + GROWTH_TOKENS, job.max_tokens))

    def _copies(self, job: Job) -> int:
        return job.width if self._reserve_all else 1

    def _all_reserved(self, jobs: Sequence[Job]) -> bool:
        return self._fits_reserved([(self._demand(job), job.width) for job in jobs])

    def _fits_reserved(self, demands: Sequence[tuple[int, int]]) -> bool:
        blocks = sum(self._blocks(num_tokens) * width for num_tokens, width in demands)
        window = sum(self._window_blocks(num_tokens) * width for num_tokens, width in demands)
        return blocks <= self._shape.num_blocks and window <= self._shape.window_blocks

    def _blocks(self, num_tokens: int) -> int:
        return -(-num_tokens // self._block_size)

    def _window_blocks(self, num_tokens: int) -> int:
        if not self._window_reach:
            return 0
        return min(self._blocks(num_tokens), self._blocks(self._window_reach) + 1)
