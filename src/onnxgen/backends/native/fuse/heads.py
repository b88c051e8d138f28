"""Head norms and rotations before attention become part of it.

q = norm(qkv[0:n], heads); q = rotate(q); k = ...; y = attend(q, k, v)  ->  y = attend(qkv, norms, tables)
"""

from __future__ import annotations

from onnxgen.backends.native.fuse.edits import Uses, changed, with_calls
from onnxgen.backends.native.fuse.head_widths import padded_width
from onnxgen.backends.native.plan import Call, Family, StepPlan, View

_TABLES = ("cos", "sin", "cos_long", "sin_long")


def fuse_heads(plan: StepPlan) -> StepPlan:
    """Let attention rotate and norm its queries and keys."""
    return _norms(_rotations(plan))


def _rotations(plan: StepPlan) -> StepPlan:
    uses, calls = Uses(plan), list[Call | None](plan.calls)
    for index, call in enumerate(plan.calls):
        if call.family is not Family.ATTEND or call.number("rotary_dim"):
            continue
        made = [_maker(plan, uses, call.reads[role], Family.ROTATE) for role in ("query", "key")]
        query, key = made
        if query is None or key is None or not _rotate_alike(plan.calls[query], plan.calls[key]):
            continue
        first, second = plan.calls[query], plan.calls[key]
        calls[query] = calls[key] = None
        calls[index] = changed(
            call,
            first,
            second,
            reads={**call.reads, "query": first.reads["x"], "key": second.reads["x"]},
            weights={**call.weights, **first.weights},
            rotary_dim=first.number("rotary_dim"),
            interleaved=first.number("interleaved"),
        )
    return with_calls(plan, calls)


def _rotate_alike(query: Call, key: Call) -> bool:
    same = all(
        query.parameters[name] == key.parameters[name] for name in ("head_dim", "rotary_dim", "interleaved")
    )
    return same and all(query.weights.get(role) == key.weights.get(role) for role in _TABLES)


def _norms(plan: StepPlan) -> StepPlan:
    uses, calls = Uses(plan), list[Call | None](plan.calls)
    for index, call in enumerate(plan.calls):
        if call.family is not Family.ATTEND or "query_norm" in call.weights:
            continue
        if padded_width(call.number("head_dim")) != call.number("head_dim"):
            continue  # zeros of padded heads would count in the norm
        query, key = (_maker(plan, uses, call.reads[role], Family.NORM) for role in ("query", "key"))
        if query is None or key is None:
            continue
        first, second = plan.calls[query], plan.calls[key]
        alike = first.real("epsilon") == second.real("epsilon")
        if not (
            alike
            and _is_head_norm(first, call.number("heads"))
            and _is_head_norm(second, call.number("kv_heads"))
        ):
            continue
        calls[query] = calls[key] = None
        calls[index] = changed(
            call,
            first,
            second,
            reads={**call.reads, "query": first.reads["x"], "key": second.reads["x"]},
            weights={
                **call.weights,
                "query_norm": first.weights["scale"],
                "key_norm": second.weights["scale"],
            },
            epsilon=first.real("epsilon"),
        )
    return with_calls(plan, calls)


def _is_head_norm(norm: Call, heads: int) -> bool:
    plain = set(norm.weights) == {"scale"} and set(norm.reads) == {"x"}
    return plain and norm.text("kind") == "rms" and norm.number("groups") == heads


def _maker(plan: StepPlan, uses: Uses, view: View, family: Family) -> int | None:
    """The call of that family that makes a view, all of it, for its one reader."""
    if uses.only_reader(view) is None or not uses.is_whole(view):
        return None
    index = uses.writer(view)
    return index if plan.calls[index].family is family else None
