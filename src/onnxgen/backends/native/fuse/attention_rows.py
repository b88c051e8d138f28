"""Queries, keys and values of a token lie in one row, which is what attention reads.

q = y @ wq; k = y @ wk; v = y @ wv; attend(q, k, v)
->  row[0:n] = y @ wq; row[n:m] = y @ wk; row[m:] = y @ wv; attend(row)
"""

from __future__ import annotations

from dataclasses import replace

from onnxgen.backends.native.fuse.edits import Uses, changed, with_calls
from onnxgen.backends.native.plan import Buffer, Call, Family, StepPlan, View

_ROLES = ("query", "key", "value")


def share_attention_rows(plan: StepPlan) -> StepPlan:
    """Put what attention reads into one buffer; what somebody else reads too is copied there."""
    uses, calls = Uses(plan), list[list[Call]]([call] for call in plan.calls)
    buffers = dict(plan.buffers)
    for index, call in enumerate(plan.calls):
        if call.family is not Family.ATTEND or len({call.reads[role].buffer for role in _ROLES}) == 1:
            continue
        name = f"{call.writes['y'].buffer}.row"
        buffers[name] = Buffer(call.rows, sum(call.reads[role].width for role in _ROLES))
        offset, reads = 0, dict(call.reads)
        for role in _ROLES:
            source = call.reads[role]
            reads[role] = place = View(name, offset, source.width)
            offset += source.width
            at = uses.writer(source)
            if (
                uses.only_reader(source) == index
                and uses.is_whole(source)
                and set(plan.calls[at].writes) == {"y"}
            ):
                calls[at] = [changed(c, writes={"y": place}) for c in calls[at]]
            else:
                calls[index].insert(0, _copy(call, source, place))
        calls[index][-1] = replace(call, reads=reads)
    return with_calls(plan, [c for group in calls for c in group], buffers=buffers)


def _copy(call: Call, source: View, target: View) -> Call:
    return Call(
        Family.MAP, call.rows, {"x": source}, {"y": target},
        parameters={"function": "scale", "amount": 1.0}, nodes=call.nodes,
    )  # fmt: skip
