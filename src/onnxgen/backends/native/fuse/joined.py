"""Products of the same rows with several matrices become one product with the matrices side by side.

row[0:n] = y @ wq; row[n:m] = y @ wk; row[m:] = y @ wv   ->   row = y @ [wq | wk | wv]
gate = y @ wg; up = y @ wu; z = silu(gate) * up          ->   z = silu(y @ wg) * (y @ wu), tile by tile
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnxgen.backends.native.fuse.edits import Uses, changed, with_calls
from onnxgen.backends.native.plan import (
    BlockMatrix,
    Call,
    Family,
    FloatMatrix,
    Part,
    StepPlan,
    Stored,
    Vector,
    View,
    Weight,
)

GATES = frozenset(("silu", "gelu", "gelu_tanh", "sigmoid"))
"""What a product can gate with."""


def join_products(plan: StepPlan) -> StepPlan:
    """Join products whose results are neighbours, and those of gates."""
    return _gates(_neighbours(plan))


def _neighbours(plan: StepPlan) -> StepPlan:
    calls: list[Call | None] = []
    weights = dict(plan.weights)
    for call in plan.calls:
        last = next((c for c in reversed(calls) if c is not None), None)
        if last is not None and _adjoin(weights, last, call):
            calls[-1] = _joined(weights, last, call)
        else:
            calls.append(call)
    return with_calls(replace(plan, weights=weights), calls)


def _adjoin(weights: dict[str, Weight], left: Call, right: Call) -> bool:
    if not (_is_plain(left) and _is_plain(right)) or left.reads["x"] != right.reads["x"]:
        return False
    a, b = left.writes["y"], right.writes["y"]
    return a.buffer == b.buffer and a.offset + a.width == b.offset and _alike(weights, left, right)


def _joined(weights: dict[str, Weight], left: Call, right: Call) -> Call:
    place = left.writes["y"]
    own = {"matrix": _beside(weights, left, right, "matrix")}
    if "bias" in left.weights or "bias" in right.weights:
        own["bias"] = _beside(weights, left, right, "bias")
    whole = replace(place, width=place.width + right.writes["y"].width)
    return changed(right, left, writes={"y": whole}, weights=own)


def _beside(weights: dict[str, Weight], left: Call, right: Call, role: str) -> str:
    name = f"{left.weights.get(role, left.weights['matrix'])} | {right.weights.get(role, right.weights['matrix'])}"
    name = name if role == "matrix" else f"{name} ({role})"
    weights[name] = Weight((*_parts(weights, left, role), *_parts(weights, right, role)))
    return name


def _parts(weights: dict[str, Weight], call: Call, role: str) -> tuple[Part, ...]:
    if role in call.weights:
        return weights[call.weights[role]].parts
    return (zeros(call.writes["y"].width),)


def zeros(width: int) -> Vector:
    """A vector of zeros, which stands for a bias that is not there."""
    return Vector(Stored("float32", (width,), inline=np.zeros(width, np.float32).tobytes()))


def _gates(plan: StepPlan) -> StepPlan:
    uses, calls = Uses(plan), list[Call | None](plan.calls)
    weights = dict(plan.weights)
    for index, call in enumerate(plan.calls):
        if call.family is not Family.GATE or call.text("function") not in GATES:
            continue
        made = [_product_of(plan, uses, call.reads[role]) for role in ("gate", "up")]
        if made[0] is None or made[1] is None:
            continue
        gate, up = (plan.calls[i] for i in made if i is not None)
        same = gate.reads["x"] == up.reads["x"] and gate.writes["y"].width == up.writes["y"].width
        if not same or not _alike(weights, gate, up):
            continue
        own = {"matrix": _beside(weights, gate, up, "matrix")}
        if "bias" in gate.weights or "bias" in up.weights:
            own["bias"] = _beside(weights, gate, up, "bias")
        for name in own.values():
            weights[name] = replace(weights[name], interleaved=True)
        for at in made:
            assert at is not None
            calls[at] = None
        calls[index] = changed(
            gate, up, call, writes=call.writes, weights=own, epilogue=call.text("function")
        )  # fmt: skip
    return with_calls(replace(plan, weights=weights), calls)


def _product_of(plan: StepPlan, uses: Uses, view: View) -> int | None:
    if uses.only_reader(view) is None or not uses.is_whole(view):
        return None
    index = uses.writer(view)
    return index if _is_plain(plan.calls[index]) else None


def _is_plain(call: Call) -> bool:
    return call.family is Family.PRODUCT and "residual" not in call.reads and not call.text("epilogue")


def _alike(weights: dict[str, Weight], left: Call, right: Call) -> bool:
    if left.number("level") != right.number("level"):
        return False
    kinds = {
        _kind(part) for call in (left, right) for part in weights[call.weights["matrix"]].parts
    }  # fmt: skip
    return len(kinds) == 1


def _kind(part: Part) -> tuple[object, ...]:
    if isinstance(part, BlockMatrix):
        zeros_kind = None if part.zeros is None else part.zeros.dtype == "uint8"
        return ("blocks", part.columns, part.bits, part.block_size, zeros_kind)
    assert isinstance(part, FloatMatrix)
    return ("floats", part.columns, part.values.dtype)
