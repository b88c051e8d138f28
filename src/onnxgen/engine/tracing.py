"""Tells the trace what plans and forks did."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from onnxgen.backends.base import CacheGeometry, Capabilities
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.trace import EngineTrace
from onnxgen.errors import ConfigError
from onnxgen.kvcache.manager import CacheManager
from onnxgen.kvcache.reservation import Reservation
from onnxgen.kvcache.usage import CacheUsage
from onnxgen.scheduler.job import Job, JobState
from onnxgen.scheduler.plan import Slice, StepPlan


def open_trace(config: EngineConfig, geometry: CacheGeometry, able: Capabilities) -> EngineTrace | None:
    """The trace that the configuration asks for.

    Raises:
        ConfigError: The file cannot be written.
    """
    if config.trace is None:
        return None
    windowed = geometry.window_blocks > 0
    budgets = config.scheduler
    try:
        return EngineTrace(
            Path(config.trace),
            num_blocks=geometry.num_blocks,
            block_size=geometry.block_size,
            window=able.window if windowed else None,
            window_blocks=geometry.window_blocks,
            exact=not able.rewind,
            max_seqs=budgets.max_seqs,
            max_step_tokens=budgets.max_step_tokens,
            chunk_tokens=budgets.chunk_tokens,
        )
    except OSError as cause:
        raise ConfigError(f"the trace {os.fspath(config.trace)} cannot be written: {cause}") from cause


def trace_plan(trace: EngineTrace, plan: StepPlan, blocks: CacheManager) -> None:
    """Write down what planning a step did, in the order in which it did it."""
    for job, mode in plan.preempted:
        trace.preempt(job.id, mode)
    for job, cached_tokens in plan.resumed:
        trace.resume(job.id, cached_tokens, blocks.blocks(job.id), blocks.window_blocks(job.id))
    for job, cached_tokens in plan.admitted:
        trace.admit(job.id, cached_tokens, blocks.blocks(job.id), blocks.window_blocks(job.id))
    for part in plan.slices:
        trace_reserve(trace, part, plan.reservation)


def trace_reserve(trace: EngineTrace, part: Slice, reservation: Reservation) -> None:
    """Write down what a sequence will compute, and where."""
    seq = part.job.id
    if part.num_draft:
        trace.draft(seq, part.job.draft[: part.num_draft])
    trace.reserve(
        seq,
        part.context_len,
        part.num_computed,
        reservation.blocks(seq),
        reservation.window_blocks(seq),
        reservation.copies([seq]),
    )


def trace_commit(trace: EngineTrace, seq: int, blocks: CacheManager) -> None:
    """Write down what a sequence holds after a step."""
    trace.commit(seq, blocks.length(seq), blocks.blocks(seq), blocks.window_blocks(seq))


def trace_submit(
    trace: EngineTrace, request: int, job: Job, prompt: Iterable[int], *, samples: int, name: str | None
) -> None:
    """Write down that a request came in."""
    trace.submit(
        request,
        job.id,
        prompt,
        samples=samples,
        extra=job.extra,
        min_chunk_end=job.min_chunk_end,
        name=name,
    )


def trace_fork(trace: EngineTrace, parent: int, child: int, index: int, blocks: CacheManager | None) -> None:
    """Write down a fork; a child that has no room to run holds nothing, and comes without blocks."""
    if blocks is None:
        trace.fork(parent, child, index, runs=False)
        return
    length, table, window_table = blocks.length(child), blocks.blocks(child), blocks.window_blocks(child)
    trace.fork(parent, child, index, length, table, window_table)


def trace_restart(trace: EngineTrace, job: Job, blocks: CacheManager) -> None:
    """Write down that a sequence is computed again, with other content."""
    runs = job.state is JobState.RUNNING
    trace.restart(
        job.id,
        blocks.length(job.id) if runs else 0,
        blocks.blocks(job.id) if runs else (),
        blocks.window_blocks(job.id) if runs else (),
        extra=job.extra,
        min_chunk_end=job.min_chunk_end,
    )


def trace_usage(trace: EngineTrace, usage: CacheUsage) -> None:
    """Write down who holds the blocks."""
    trace.usage(used=usage.full.in_use, cached=usage.full.cached, free=usage.full.free)
