"""Behind the last attention, only wanted rows are computed: the selection moves up as far as it can go.

    y = norm(x); h = y @ w; z = select(h)   ->   a = select(x); y = norm(a); z = y @ w

Every call between works on each row by itself, so the wanted rows come out the same.
"""

from __future__ import annotations

from dataclasses import replace

from onnxgen.backends.native.fuse.edits import with_calls
from onnxgen.backends.native.plan import Buffer, Call, Family, RowKind, StepPlan, View

_MIXING = frozenset((Family.ATTEND, Family.EMBED, Family.GIVEN))


def select_early(plan: StepPlan) -> StepPlan:
    """Compute the logits' rows only, from the last call on that mixes tokens or makes them."""
    last = max(i for i, call in enumerate(plan.calls) if call.family in _MIXING)
    tail = plan.calls[last + 1 :]
    if not any(call.family is Family.SELECT for call in tail):
        return plan
    made = {view.buffer for call in tail for view in call.writes.values()}
    buffers = dict(plan.buffers)
    selected: dict[str, View] = {}
    selections: list[Call] = []
    calls: list[Call] = []
    renamed: dict[str, str] = {}

    def wanted(view: View) -> View:
        """The wanted rows of a view."""
        if view.buffer in renamed:
            return replace(view, buffer=renamed[view.buffer])
        if view.buffer in made or buffers[view.buffer].rows is RowKind.WANTED:
            return view
        if view.buffer not in selected:
            name, width = f"{view.buffer}.wanted", buffers[view.buffer].width
            while name in buffers:
                name += "_"
            buffers[name] = Buffer(RowKind.WANTED, width)
            selected[view.buffer] = View(name, 0, width)
            whole = View(view.buffer, 0, width)
            selections.append(Call(Family.SELECT, RowKind.WANTED, {"x": whole}, {"y": selected[view.buffer]}))
        return replace(view, buffer=selected[view.buffer].buffer)

    for call in tail:
        if call.family is Family.SELECT:
            # What it gives is what its input has become, or columns of it.
            source = wanted(call.reads["x"])
            if source.offset or source.width != buffers[source.buffer].width:
                calls.append(replace(call, reads={"x": source}, rows=RowKind.WANTED, family=Family.MAP,
                                     parameters={"function": "scale", "amount": 1.0}))  # fmt: skip
            else:
                renamed[call.writes["y"].buffer] = source.buffer
            continue
        reads = {role: wanted(view) for role, view in call.reads.items()}
        for view in call.writes.values():
            buffers[view.buffer] = replace(buffers[view.buffer], rows=RowKind.WANTED)
        calls.append(replace(call, reads=reads, rows=RowKind.WANTED))
    results = [None if v is None else wanted(v) for v in (plan.logits, plan.hidden_states)]
    assert results[0] is not None
    moved = replace(plan, logits=results[0], hidden_states=results[1])
    return with_calls(moved, [*plan.calls[: last + 1], *selections, *calls], buffers=buffers)
