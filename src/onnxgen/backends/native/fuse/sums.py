"""Sums that other calls can do on the way: biases of products, residual sums before norms, factors of embeddings.

y = x @ w; z = y + bias         ->  z = x @ w + bias
s = a + b; y = norm(s)          ->  y, s = norm(a + b), a + b
e = embed(ids); x = e * 25.3    ->  x = embed(ids) * 25.3
"""

from __future__ import annotations

from onnxgen.backends.native.fuse.edits import Uses, changed, with_calls
from onnxgen.backends.native.plan import Call, Family, StepPlan


def fuse_sums(plan: StepPlan) -> StepPlan:
    """Let products add biases, norms add residuals and embeddings scale."""
    for rewrite in (_into_writers, _into_norms):
        plan = rewrite(plan)
    return plan


def _into_writers(plan: StepPlan) -> StepPlan:
    uses, calls = Uses(plan), list[Call | None](plan.calls)
    for index, call in enumerate(plan.calls):
        bias = call.family is Family.ADD and "other" in call.weights
        scale = call.family is Family.MAP and call.text("function") == "scale"
        if (
            not (bias or scale)
            or uses.only_reader(call.reads["x"]) is None
            or not uses.is_whole(call.reads["x"])
        ):
            continue
        at = uses.writer(call.reads["x"])
        made = calls[at]
        if made is None:
            continue
        if bias and made.family is Family.PRODUCT and not {"bias", "residual"} & {*made.weights, *made.reads}:
            weights = {**made.weights, "bias": call.weights["other"]}
            calls[at], calls[index] = changed(made, writes=call.writes, weights=weights), None
        elif scale and made.family is Family.EMBED:
            factor = made.real("factor") * call.real("amount")
            calls[at], calls[index] = changed(made, writes=call.writes, factor=factor), None
    return with_calls(plan, calls)


def _into_norms(plan: StepPlan) -> StepPlan:
    uses, calls = Uses(plan), list[Call | None](plan.calls)
    for index, call in enumerate(plan.calls):
        if call.family is not Family.ADD or "other" not in call.reads:
            continue
        norms = [i for i in uses.readers(call.writes["y"]) if _may_add(plan.calls[i], call)]
        if not norms or norms[0] != min(uses.readers(call.writes["y"])) or calls[norms[0]] is None:
            continue
        norm = plan.calls[norms[0]]
        calls[index] = None
        calls[norms[0]] = changed(
            norm,
            call,
            reads={"x": call.reads["x"], "skip": call.reads["other"]},
            writes={**norm.writes, "sum": call.writes["y"]},
        )
    return with_calls(plan, calls)


def _may_add(norm: Call, add: Call) -> bool:
    return (
        norm.family is Family.NORM
        and norm.reads["x"] == add.writes["y"]
        and "skip" not in norm.reads
        and norm.number("groups") == 1
    )
