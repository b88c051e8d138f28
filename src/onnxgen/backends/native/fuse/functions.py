"""Functions that graphs write as several operators: SiLU, soft caps, gates.

s = sigmoid(x); y = x * s                 ->  y = silu(x)
a = x * (1 / c); b = tanh(a); y = b * c   ->  y = softcap(x, c)
a = silu(gate); y = a * up                ->  y = gate(gate, up)
"""

from __future__ import annotations

from onnxgen.backends.native.fuse.edits import Uses, changed, with_calls
from onnxgen.backends.native.plan import Call, Family, StepPlan

_GATES = frozenset(("silu", "gelu", "gelu_tanh", "swish", "sigmoid", "tanh"))
_TOLERANCE = 1e-6


def fuse_functions(plan: StepPlan) -> StepPlan:
    """Join the operators of a function into one call."""
    for rewrite in (_silu, _soft_cap, _gate):
        plan = rewrite(plan)
    return plan


def _map_of(plan: StepPlan, uses: Uses, call: Call, role: str, *functions: str) -> tuple[int, Call] | None:
    """The call that makes what ``call`` alone reads, if it is one of those functions."""
    view = call.reads[role]
    if uses.only_reader(view) is None or not uses.is_whole(view):
        return None
    index = uses.writer(view)
    made = plan.calls[index]
    fits = made.family is Family.MAP and made.text("function") in functions
    return (index, made) if fits else None


def _silu(plan: StepPlan) -> StepPlan:
    uses, calls = Uses(plan), list[Call | None](plan.calls)
    for index, call in enumerate(plan.calls):
        if call.family is not Family.MULTIPLY or "other" not in call.reads:
            continue
        for own, factor in (("x", "other"), ("other", "x")):
            found = _map_of(plan, uses, call, factor, "sigmoid")
            if found is not None and found[1].reads["x"] == call.reads[own]:
                silu = changed(found[1], writes=call.writes, function="silu", amount=0.0)
                calls[found[0]], calls[index] = None, changed(silu, call)
                break
    return with_calls(plan, calls)


def _soft_cap(plan: StepPlan) -> StepPlan:
    uses, calls = Uses(plan), list[Call | None](plan.calls)
    for index, call in enumerate(plan.calls):
        if call.family is not Family.MAP or call.text("function") != "scale":
            continue
        bent = _map_of(plan, uses, call, "x", "tanh")
        first = None if bent is None else _map_of(plan, uses, bent[1], "x", "scale")
        if bent is None or first is None:
            continue
        cap = call.real("amount")
        if abs(first[1].real("amount") * cap - 1.0) > _TOLERANCE:
            continue
        calls[first[0]] = calls[bent[0]] = None
        calls[index] = changed(
            call, first[1], bent[1], reads=first[1].reads, function="softcap", amount=cap
        )  # fmt: skip
    return with_calls(plan, calls)


def _gate(plan: StepPlan) -> StepPlan:
    uses, calls = Uses(plan), list[Call | None](plan.calls)
    for index, call in enumerate(plan.calls):
        if call.family is not Family.MULTIPLY or "other" not in call.reads:
            continue
        for gate, up in (("x", "other"), ("other", "x")):
            found = _map_of(plan, uses, call, gate, *_GATES)
            if found is None:
                continue
            calls[found[0]] = None
            calls[index] = Call(
                Family.GATE,
                call.rows,
                {"gate": found[1].reads["x"], "up": call.reads[up]},
                call.writes,
                parameters=found[1].parameters,
                nodes=(*found[1].nodes, *call.nodes),
            )
            break
    return with_calls(plan, calls)
