"""What a step will do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from onnxgen.kvcache.reservation import Reservation
from onnxgen.scheduler.job import Job

PreemptionMode = Literal["swap", "recompute"]


class Slice(NamedTuple):
    """Tokens ``[context_len, context_len + num_tokens)`` of one job, and of its draft the first ``num_draft`` behind them."""

    job: Job
    context_len: int
    num_tokens: int
    num_draft: int = 0

    @property
    def end(self) -> int:
        """Tokens of the job that are computed when it is done."""
        return self.context_len + self.num_tokens

    @property
    def num_computed(self) -> int:
        """Tokens that the step computes for it."""
        return self.num_tokens + self.num_draft

    @property
    def reaches_end(self) -> bool:
        """Whether it computes the last known token, so that the next one can be chosen."""
        return self.context_len + self.num_tokens == len(self.job.tokens)

    @property
    def wants_all_logits(self) -> bool:
        """Whether logits are wanted of more than its last token, because the job asks for them."""
        return self.job.logits_from is not None and self.context_len + self.num_tokens > self.job.logits_from


@dataclass(frozen=True, slots=True)
class StepPlan:
    """Who takes part in a step, and what had to happen for it.

    Attributes:
        reservation: Where the blocks of the step are; to commit or roll back sequence by sequence.
        slices: What is computed: decodes first, then chunks of prompts, each in the order of their claims.
        admitted: Newcomers, with the tokens that need no computing.
        resumed: Those that had to give way and are back, with the tokens that need no computing.
        preempted: Those that gave way, and how.
    """

    reservation: Reservation
    slices: list[Slice] = field(default_factory=list[Slice])
    admitted: list[tuple[Job, int]] = field(default_factory=list[tuple[Job, int]])
    resumed: list[tuple[Job, int]] = field(default_factory=list[tuple[Job, int]])
    preempted: list[tuple[Job, PreemptionMode]] = field(default_factory=list[tuple[Job, PreemptionMode]])

    @property
    def num_tokens(self) -> int:
        """Tokens that the step computes."""
        return sum(part.num_computed for part in self.slices)

    @property
    def num_draft_tokens(self) -> int:
        """Of these, those of drafts."""
        return sum(part.num_draft for part in self.slices)

    @property
    def num_prefill_tokens(self) -> int:
        """Of these, those of sequences that compute more than one."""
        return sum(part.num_tokens for part in self.slices if part.num_tokens > 1)
