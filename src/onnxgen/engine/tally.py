"""`Tally`: adds up what steps did."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from onnxgen.engine.execution import Executed
from onnxgen.engine.speculation.stats import SpeculationStats
from onnxgen.engine.stats import EngineStats, StepStats
from onnxgen.kvcache.usage import CacheUsage
from onnxgen.scheduler.plan import StepPlan

_MOST_STEPS = 4096


class Tally:
    """Counts of all steps, and the last ones.

    Attributes:
        last_steps: So many as are kept.
    """

    def __init__(self) -> None:
        self.last_steps = deque[StepStats](maxlen=_MOST_STEPS)
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
        began_s: float,
    ) -> None:
        """Add a step; see `StepStats`."""
        prefill = plan.num_prefill_tokens
        step = StepStats(
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
            began_s=began_s,
        )
        self.last_steps.append(step)
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
