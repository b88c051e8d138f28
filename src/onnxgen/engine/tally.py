"""`Tally`: adds up what steps did."""

from __future__ import annotations

from collections.abc import Mapping

from onnxgen.engine.execution import Executed
from onnxgen.engine.speculation.stats import SpeculationStats
from onnxgen.engine.stats import EngineStats, StepStats
from onnxgen.kvcache.usage import CacheUsage
from onnxgen.scheduler.plan import StepPlan


class Tally:
    """Counts of all steps, and the last one.

    Attributes:
        last_step: None before the first.
    """

    def __init__(self) -> None:
        self.last_step: StepStats | None = None
        self._steps = self._prefill_tokens = self._generated_tokens = self._preemptions = self._failed = 0

    def add(
        self,
        plan: StepPlan,
        executed: Executed,
        *,
        generated: int,
        waiting: int,
        plan_s: float,
        sample_s: float,
        total_s: float,
    ) -> None:
        """Add a step; see `StepStats`."""
        prefill = plan.num_prefill_tokens
        self.last_step = StepStats(
            number=self._steps,
            num_seqs=len(plan.slices),
            prefill_tokens=prefill,
            decode_tokens=plan.num_tokens - prefill - plan.num_draft_tokens,
            draft_tokens=plan.num_draft_tokens,
            preempted=len(plan.preempted),
            waiting=waiting,
            plan_s=plan_s,
            execute_s=executed.execute_s,
            sample_s=sample_s,
            total_s=total_s,
        )
        self._steps += 1
        self._prefill_tokens += prefill
        self._generated_tokens += generated
        self._preemptions += len(plan.preempted)
        self._failed += executed.failed

    def stats(
        self,
        *,
        submitted: int,
        finished: Mapping[str, int],
        waiting: int,
        running: int,
        cache: CacheUsage,
        speculation: SpeculationStats,
    ) -> EngineStats:
        """All counts together; see `EngineStats`."""
        return EngineStats(
            steps=self._steps,
            submitted=submitted,
            finished=finished,
            prefill_tokens=self._prefill_tokens,
            generated_tokens=self._generated_tokens,
            preemptions=self._preemptions,
            failed_steps=self._failed,
            waiting=waiting,
            running=running,
            cache=cache,
            speculation=speculation,
        )
