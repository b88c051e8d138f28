"""Activations become integers once, where they are made, for all products that read them.

y = norm(x); a = y @ w1; b = y @ w2    ->   q = integers(norm(x)); a = q @ w1; b = q @ w2
"""

from __future__ import annotations

from dataclasses import replace

from onnxgen.backends.native.fuse.edits import Uses, changed, with_calls
from onnxgen.backends.native.plan import (
    BlockMatrix,
    Buffer,
    Call,
    Elements,
    Family,
    StepPlan,
    View,
)

INT8_LEVEL = 4
"""The accuracy level from which activations may be rounded to 8 bits."""

Form = tuple[Elements, int]


def quantize_activations(plan: StepPlan) -> StepPlan:
    """Let products of blocks read integers, written by the call that makes the rows or by one of their own."""
    buffers, calls = dict(plan.buffers), list[Call]()
    ready: dict[tuple[View, Form], View] = {}
    for call in plan.calls:
        form = _form(plan, call)
        if form is not None:
            source = call.reads["x"]
            if (source, form) not in ready:
                ready[source, form] = _integers(calls, buffers, source, form, call)
            call = changed(call, reads={**call.reads, "x": ready[source, form]})
        written = {view.buffer for view in call.writes.values()}
        ready = {key: view for key, view in ready.items() if key[0].buffer not in written}
        calls.append(call)
    return _without_unread_floats(with_calls(plan, calls, buffers=buffers))


def _integers(calls: list[Call], buffers: dict[str, Buffer], source: View, form: Form, reader: Call) -> View:
    """Let the last call that wrote the rows write them as integers too, or append a call that does."""
    name, number = f"{source.buffer}.{form[0]}", 1
    while name in buffers:
        number += 1
        name = f"{source.buffer}.{form[0]}.{number}"
    buffers[name] = Buffer(reader.rows, source.width, *form)
    whole = View(name, 0, source.width)
    at = max(i for i, c in enumerate(calls) if any(v.buffer == source.buffer for v in c.writes.values()))
    if _can_write_integers(calls[at], source):
        calls[at] = changed(calls[at], writes={**calls[at].writes, "q": whole})
    else:
        calls.append(Call(Family.QUANTIZE, reader.rows, {"x": source}, {"y": whole}, nodes=reader.nodes))
    return whole


def _can_write_integers(call: Call, rows: View) -> bool:
    if "q" in call.writes or call.writes.get("y") != rows:
        return False
    return call.family is Family.GATE or (call.family is Family.NORM and call.number("groups") == 1)


def _form(plan: StepPlan, call: Call) -> Form | None:
    """The integers that a product wants; None for all other calls."""
    if call.family is not Family.PRODUCT:
        return None
    part = plan.weights[call.weights["matrix"]].parts[0]
    if not isinstance(part, BlockMatrix):
        return None
    elements = Elements.INT8 if call.number("level") >= INT8_LEVEL else Elements.INT16
    return elements, min(part.block_size, 32)


def _without_unread_floats(plan: StepPlan) -> StepPlan:
    uses = Uses(plan)
    calls = [
        replace(call, writes={role: view for role, view in call.writes.items() if role != "y"})
        if "q" in call.writes and not uses.readers(call.writes["y"]) and not uses.is_result(call.writes["y"])
        else call
        for call in plan.calls
    ]
    return with_calls(plan, calls)
