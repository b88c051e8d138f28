"""`EngineView`: an engine from inside at one moment, for people and routers: steps, sequences and known prefixes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onnxgen.engine.sample import Sample
from onnxgen.engine.stats import StepStats
from onnxgen.kvcache.manager import CacheManager
from onnxgen.kvcache.prefix_view import PrefixView
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.job import Job, JobState


@dataclass(frozen=True, slots=True)
class SequenceView:
    """A sequence that has not ended.

    Attributes:
        name: What its request is called.
        index: Which of the request's samples it is.
        state: Where it is in its life: ``waiting``, ``prefill``, ``decode``, ``preempted`` or ``swapped``.
        prompt_tokens: Length of its prompt.
        num_tokens: Its length.
        cached_tokens: Tokens of the prompt that the cache held when it was first admitted.
        held_tokens: Tokens whose keys and values are in its blocks.
        num_blocks: Blocks that it holds, shared ones included.
        priority: Under the policy ``priority``.
    """

    name: str
    index: int
    state: str
    prompt_tokens: int
    num_tokens: int
    cached_tokens: int
    held_tokens: int
    num_blocks: int
    priority: int


@dataclass(frozen=True, slots=True)
class EngineView:
    """An engine from inside at one moment.

    Attributes:
        steps: The last steps, in order.
        sequences: Those that have not ended.
        prefixes: Beginnings of whole blocks that were used last, latest first.
        block_size: Tokens of a block.
        max_seq_tokens: The longest sequence, prompt and answer together.
        scheduling: Budgets and rules as they are now.
    """

    steps: tuple[StepStats, ...]
    sequences: tuple[SequenceView, ...]
    prefixes: tuple[PrefixView, ...]
    block_size: int
    max_seq_tokens: int
    scheduling: SchedulerConfig


def sequence_views(samples: Iterable[tuple[Sample, Job]], blocks: CacheManager) -> tuple[SequenceView, ...]:
    """What there is to say of sequences that have not ended."""
    return tuple(_sequence_view(sample, job, blocks) for sample, job in samples)


def _sequence_view(sample: Sample, job: Job, blocks: CacheManager) -> SequenceView:
    runs = job.state is JobState.RUNNING
    return SequenceView(
        name=sample.name,
        index=sample.index,
        state=sample.state.name.lower(),
        prompt_tokens=sample.num_tokens - sample.num_new_tokens,
        num_tokens=sample.num_tokens,
        cached_tokens=sample.cached_tokens,
        held_tokens=blocks.length(job.id) if runs else 0,
        num_blocks=len(blocks.blocks(job.id)) if runs else 0,
        priority=job.priority,
    )
