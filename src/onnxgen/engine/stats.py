"""What an engine counts: `StepStats` of one step, `EngineStats` since it was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnxgen.engine.speculation.stats import NOTHING_GUESSED, SpeculationStats
from onnxgen.kvcache.usage import CacheUsage


@dataclass(frozen=True, slots=True)
class StepStats:
    """One step.

    Attributes:
        number: Steps before it.
        num_seqs: Sequences that took part.
        prefill_tokens: Tokens of prompts, and of sequences that are computed again.
        decode_tokens: Tokens of sequences that lacked one only.
        draft_tokens: Tokens that were guessed ahead and computed.
        preempted: Sequences that gave up their blocks for it.
        waiting: Sequences that wait after it, for their first step or because they gave way.
        plan_s: Seconds to plan it.
        execute_s: Seconds in the backend.
        sample_s: Seconds to choose tokens.
        total_s: Seconds from its beginning to its end.
        began_s: Reading of `time.perf_counter` when it began, which the processes of one machine have in common.
    """

    number: int
    num_seqs: int
    prefill_tokens: int
    decode_tokens: int
    draft_tokens: int
    preempted: int
    waiting: int
    plan_s: float
    execute_s: float
    sample_s: float
    total_s: float
    began_s: float

    @property
    def engine_s(self) -> float:
        """Seconds outside the backend."""
        return self.total_s - self.execute_s


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Everything since the engine was made.

    Attributes:
        steps: Steps executed.
        submitted: Requests accepted.
        finished: Samples that ended, by reason.
        prefill_tokens: Tokens computed of prompts, and of sequences that were computed again.
        generated_tokens: Tokens chosen.
        preemptions: How often a sequence gave up its blocks.
        failed_steps: Steps that raised.
        waiting: Sequences that wait now, for their first step or because they gave way.
        running: Sequences that hold blocks and take part.
        cache: The block pool.
        speculation: Tokens that were guessed ahead.
    """

    steps: int
    submitted: int
    finished: Mapping[str, int]
    prefill_tokens: int
    generated_tokens: int
    preemptions: int
    failed_steps: int
    waiting: int
    running: int
    cache: CacheUsage
    speculation: SpeculationStats = NOTHING_GUESSED
