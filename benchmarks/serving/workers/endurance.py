"""A long life of onnxgen's engine: requests that are answered, cancelled, refused and that fail; memory now and then."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.measuring import prompt_ids
from benchmarks.peers.workers.serving import memory_mb

if TYPE_CHECKING:
    from onnxgen.backends.base import Backend, KVCache, Step, StepOutput
    from onnxgen.engine.core import EngineCore

_MAX_SEQS, _MAX_TOKENS = 8, 136
_CACHE_TOKENS = 512  # short, so that blocks are evicted and sequences preempted
_POISON = 7  # no other prompt has it


@dataclass(frozen=True)
class Sample:
    """What there is when nothing runs.

    Attributes:
        requests: Sent so far.
        ended: How they ended: by finish reason, or ``refused``; and how often one was ``preempted``.
        rss_mb: Memory of the process.
        blocks_in_use: Blocks that a sequence holds.
        blocks_cached: Blocks kept for prompts to come.
    """

    requests: int
    ended: dict[str, int] = field(default_factory=dict)
    rss_mb: float | None = None
    blocks_in_use: int = 0
    blocks_cached: int = 0


class FragileBackend:
    """A backend that fails whenever a certain token is in a step."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def execute(self, step: Step, cache: KVCache) -> StepOutput:
        from onnxgen.errors import BackendError

        if (step.token_ids == _POISON).any():
            raise BackendError("made to fail: the step has the poisonous token")
        return self._backend.execute(step, cache)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def endure(backend: Backend, *, context_length: int, requests: int, every: int, seed: int) -> list[Sample]:
    """Send waves of ``every`` requests; a sample of each wave's end.

    Of the requests a fifth is cancelled somewhere on its way, a tenth fails in a step, and a tenth is refused.
    """
    from onnxgen.engine.config import EngineConfig
    from onnxgen.engine.core import EngineCore
    from onnxgen.scheduler.config import SchedulerConfig

    config = EngineConfig(
        SchedulerConfig(max_seqs=_MAX_SEQS, max_step_tokens=256, chunk_tokens=128),
        max_seq_tokens=_MAX_TOKENS,
        cache_tokens=_CACHE_TOKENS,
    )
    engine = EngineCore(FragileBackend(backend), config, eos_ids=(), context_length=context_length)
    source, ended = random.Random(seed), Counter[str]()
    samples: list[Sample] = []
    try:
        for sent in range(every, requests + 1, every):
            _wave(engine, every, source, ended)
            engine.check_integrity()
            stats = engine.stats()
            usage, ended["preempted"] = stats.cache, stats.preemptions
            samples.append(
                Sample(sent, dict(ended), memory_mb("VmRSS"), usage.full.in_use, usage.full.cached)
            )
    finally:
        engine.close()
    return samples


def _wave(engine: EngineCore, count: int, source: random.Random, ended: Counter[str]) -> None:
    """Send so many requests and step until none is left."""
    from onnxgen.engine.request import EngineRequest
    from onnxgen.errors import ContextLengthError, TokenIdError

    cancel_at: dict[int, int] = {}
    for _ in range(count):
        prompt = prompt_ids(source.randint(8, 64), 40000, seed=source.randrange(64))
        fate = source.random()
        if fate < 0.1:
            prompt[source.randrange(len(prompt))] = _POISON
        elif fate < 0.15:
            prompt[0] = -1
        elif fate < 0.2:
            prompt *= 33
        try:
            number = engine.submit(
                EngineRequest(prompt, max_new_tokens=source.randint(1, 72), ignore_eos=True)
            )
        except (ContextLengthError, TokenIdError):
            ended["refused"] += 1
        else:
            if fate > 0.8:
                cancel_at[number] = source.randrange(90)
    steps = 0
    while engine.has_work:
        for number in [n for n, step in cancel_at.items() if step <= steps]:
            del cancel_at[number]
            engine.cancel(number)
        for event in engine.step():
            if event.finish_reason is not None:
                ended[event.finish_reason] += 1
        steps += 1
