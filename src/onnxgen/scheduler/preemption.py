"""Who gives way when memory is short, how, and how it comes back."""

from __future__ import annotations

from collections.abc import Sequence

from onnxgen.kvcache.manager import CacheManager
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.costs import PreemptionCosts
from onnxgen.scheduler.job import Job, JobState
from onnxgen.scheduler.plan import PreemptionMode
from onnxgen.scheduler.room import Room


def who_gives_way(job: Job, running: Sequence[Job], cache: CacheManager, *, step: int) -> Job | None:
    """The lowest claim below that of ``job`` that is not in the step yet; None: there is none.

    Those who came back and have not gained a token since are spared, unless nobody else is left.
    """
    below = [other for other in reversed(running) if other.claim > job.claim and other.last_step != step]
    for other in below:
        if cache.length(other.id) >= other.goal:
            return other
    return below[0] if below else None


def give_way(
    job: Job, cache: CacheManager, *, config: SchedulerConfig, room: Room, costs: PreemptionCosts
) -> PreemptionMode:
    """Take the blocks of a running job from it, and say how."""
    mode = _mode(cache.length(job.id), config, room, costs)
    if mode == "swap" and cache.swap_out(job.id):
        return "swap"
    cache.release(job.id, job.tokens)
    return "recompute"


def come_back(job: Job, cache: CacheManager) -> int:
    """Open a job's sequence again, or for the first time; returns its tokens that need no computing."""
    if job.state is JobState.SWAPPED:
        if cache.swap_in(job.id):
            return cache.length(job.id)
        # not all of it fits where others have its beginning: it shares that, and the rest is computed again
        cache.release(job.id, None)
        job.state = JobState.PREEMPTED
    return cache.open(job.id, job.tokens, extra=job.extra, reuse_limit=job.logits_from)


def _mode(num_tokens: int, config: SchedulerConfig, room: Room, costs: PreemptionCosts) -> PreemptionMode:
    match config.preemption:
        case "swap" | "recompute" as mode:
            return mode
        case "off":  # nobody gives way for room then, but budgets may have been lowered
            return "recompute"
        case "auto":
            return costs.choose(num_tokens=num_tokens, num_bytes=room.bytes_of(num_tokens))
