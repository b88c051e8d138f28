"""Residual sums happen where a product writes: the stream of a decoder is one buffer that products add to.

p = y @ w; n, s = norm(p + r), p + r; ... s ...   ->   r += y @ w; n = norm(r); ... r ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnxgen.backends.native.fuse.edits import Uses, changed, with_calls
from onnxgen.backends.native.plan import Call, Family, StepPlan, View


def fuse_residuals(plan: StepPlan) -> StepPlan:
    """Let products add to the residual stream in place."""
    uses, calls = Uses(plan), list[Call](plan.calls)
    renamed: dict[str, str] = {}
    for index, call in enumerate(plan.calls):
        if call.family is not Family.NORM or "skip" not in call.reads or "skip_bias" in call.weights:
            continue
        for branch, stream in (("x", "skip"), ("skip", "x")):
            at = _product(plan, uses, call.reads[branch])
            if at is None or not _ends_here(plan, uses, call, call.reads[stream], at, index):
                continue
            product = calls[at]
            held = _renamed(call.reads[stream], renamed)
            calls[at] = changed(product, reads={**product.reads, "residual": held}, writes={"y": held})
            calls[index] = changed(call, reads={"x": held}, writes={"y": call.writes["y"]})
            if "sum" in call.writes:
                renamed[call.writes["sum"].buffer] = held.buffer
            break
    calls = [
        replace(
            c,
            reads={role: _renamed(view, renamed) for role, view in c.reads.items()},
            writes={role: _renamed(view, renamed) for role, view in c.writes.items()},
        )
        for c in calls
    ]
    moved = replace(
        plan,
        logits=_renamed(plan.logits, renamed),
        hidden_states=None if plan.hidden_states is None else _renamed(plan.hidden_states, renamed),
    )
    return with_calls(moved, calls)


def _product(plan: StepPlan, uses: Uses, branch: View) -> int | None:
    if uses.only_reader(branch) is None or not uses.is_whole(branch):
        return None
    index = uses.writer(branch)
    call = plan.calls[index]
    fits = call.family is Family.PRODUCT and "residual" not in call.reads and not call.text("epilogue")
    return index if fits else None


def _ends_here(plan: StepPlan, uses: Uses, norm: Call, stream: View, product: int, index: int) -> bool:
    """Whether nobody reads the stream any more once the product has begun to add to it, but for the norm."""
    if uses.is_result(stream) or not uses.is_whole(stream):
        return False
    if plan.buffers[stream.buffer].rows is not norm.rows or uses.writer(stream) > product:
        return False
    return all(reader < product or reader == index for reader in uses.readers(stream))


def _renamed(view: View, renamed: Mapping[str, str]) -> View:
    name = view.buffer
    while name in renamed:
        name = renamed[name]
    return view if name == view.buffer else replace(view, buffer=name)
