"""How many tokens of a job go into a step."""

from __future__ import annotations

from typing import NamedTuple

from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.job import Job


class Chunk(NamedTuple):
    """Ask for ``num_tokens``, and be content with ``least``; none: the job does not fit into what is left of a step."""

    num_tokens: int
    least: int


NOTHING = Chunk(0, 1)


def next_chunk(job: Job, context_len: int, *, config: SchedulerConfig, left: int, is_first: bool) -> Chunk:
    """What ``job``, of which the cache holds ``context_len`` tokens, computes next.

    Args:
        job: Whose tokens.
        context_len: Its tokens that need no computing.
        config: The longest chunk.
        left: Tokens that the step has left.
        is_first: No other chunk is in the step. A job that must reach ``min_chunk_end`` at once then may exceed
            what is left, since no step would ever have room for it otherwise.
    """
    pending = len(job.tokens) - context_len
    most = config.chunk_tokens
    # under `solo` where one is cut must not depend on how far one is
    if job.chunk_limit is not None and (config.solo or _gives_all_logits(job, context_len)):
        most = min(most, job.chunk_limit)
    if config.solo:
        num_tokens = _to_next_mark(job, context_len, grid=most)
        return Chunk(num_tokens, num_tokens)
    num_tokens = min(pending, most, left)
    must = min(pending, job.min_chunk_end - context_len)
    if must <= num_tokens:
        return Chunk(num_tokens, max(must, 1)) if num_tokens > 0 else NOTHING
    return Chunk(must, must) if is_first else NOTHING


def _gives_all_logits(job: Job, context_len: int) -> bool:
    return job.logits_from is not None and context_len >= job.logits_from


def _to_next_mark(job: Job, context_len: int, *, grid: int) -> int:
    """Prompts are cut at multiples of ``grid``, answers have one token each, and a first chunk ends where it must.

    ::

        prompt of 10, grid 4      [ 0 1 2 3 | 4 5 6 7 | 8 9 ]  10 | 11 | 12 ...
    """
    if context_len < job.prompt_tokens:
        mark = min((context_len // grid + 1) * grid, job.prompt_tokens)
    else:
        mark = context_len + 1
    return min(max(mark, job.min_chunk_end), len(job.tokens)) - context_len
