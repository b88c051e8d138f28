"""What only the logits need comes last, so that a step that wants no logits can leave it out.

n = norm(x); logits = n @ head; h = join(x, low)   ->   n = norm(x); h = join(x, low); logits = n @ head
"""

from __future__ import annotations

from onnxgen.backends.native.fuse.edits import with_calls
from onnxgen.backends.native.plan import Call, Family, StepPlan


def head_last(plan: StepPlan) -> StepPlan:
    """Move calls behind the last attention that hidden states do not need behind those that they do."""
    if plan.hidden_states is None:
        return plan
    first = max((i for i, call in enumerate(plan.calls) if call.family is Family.ATTEND), default=-1) + 1
    needed, sooner, later = {plan.hidden_states.buffer}, list[Call](), list[Call]()
    for call in reversed(plan.calls[first:]):
        if needed.isdisjoint(view.buffer for view in call.writes.values()):
            later.append(call)
        else:
            sooner.append(call)
            needed.update(view.buffer for view in call.reads.values())
    return with_calls(plan, [*plan.calls[:first], *reversed(sooner), *reversed(later)])
