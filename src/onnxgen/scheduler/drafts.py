"""How many tokens of drafts go into a step.

::

    max_step_tokens   [ d d d d | p p p p p p p p p | p p p | x x x . . . ]
                       decodes    chunks of prompts   new     drafts, by claim

A draft may turn out to be of no use, so it gets what all others leave: of the step's tokens, of rows of logits, of blocks
and of the budget in bytes. Nobody gives way to it, and a prompt that could use the room has had it.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnxgen.scheduler.job import Job
from onnxgen.scheduler.plan import StepPlan
from onnxgen.scheduler.room import Room


def add_drafts(
    plan: StepPlan,
    room: Room,
    *,
    running: Sequence[Job],
    most_tokens: int,
    most_logits: int,
    longest: int,
) -> None:
    """Let decodes compute as much of their drafts as there is room for.

    Args:
        plan: Of a step that has got everything else.
        room: Budgets.
        running: Who runs.
        most_tokens: What the step has left of its tokens.
        most_logits: And of rows of logits.
        longest: The longest draft.
    """
    spare_bytes: int | None = None
    for at, part in enumerate(plan.slices):
        job = part.job
        if not job.draft or part.num_tokens != 1 or not part.reaches_end or job.logits_from is not None:
            continue
        most = min(len(job.draft), most_tokens, most_logits, longest)
        if room.max_bytes is not None:
            spare_bytes = room.spare_bytes(running) if spare_bytes is None else spare_bytes
            most = room.longest_draft(job, most, spare_bytes=spare_bytes)
        granted = plan.reservation.extend_by_draft(job.id, most) if most > 0 else 0
        if granted:
            plan.slices[at] = part._replace(num_draft=granted)
            most_tokens -= granted
            most_logits -= granted
            if spare_bytes is not None:
                spare_bytes -= room.bytes_of_draft(job, granted)
