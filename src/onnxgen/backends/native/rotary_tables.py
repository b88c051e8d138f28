"""Rotary tables of a plan that kernels can use: the short and the long one of a switch behind each other."""

from __future__ import annotations

from dataclasses import replace

from onnxgen.backends.native.passes import RotaryRows
from onnxgen.backends.native.plan import StepPlan, Vector, Weight


def join_rotary_tables(plan: StepPlan, switch_length: int | None) -> tuple[StepPlan, RotaryRows]:
    """Put long tables behind the short ones, and say where they begin.

    Tables that do not change with the length are put there twice, if others of the plan do.
    """
    starts = {_rows(plan.weights[c.weights["cos"]]) for c in plan.calls if "cos_long" in c.weights}
    if switch_length is None or not starts:
        return plan, RotaryRows()
    start = max(starts | {switch_length})
    weights, calls = dict(plan.weights), list(plan.calls)
    for index, call in enumerate(calls):
        if "cos" not in call.weights:
            continue
        own = dict(call.weights)
        for role in ("cos", "sin"):
            short, long = own[role], own.pop(f"{role}_long", own[role])
            own[role] = f"{short} + {long}"
            (first,), (second,) = weights[short].parts, weights[long].parts
            assert isinstance(first, Vector)
            assert isinstance(second, Vector)
            weights[own[role]] = Weight((_cut(first, start), second))
        calls[index] = replace(call, weights=own)
    return replace(plan, weights=weights, calls=tuple(calls)), RotaryRows(switch_length, start)


def _rows(weight: Weight) -> int:
    (part,) = weight.parts
    assert isinstance(part, Vector)
    return part.values.shape[0]


def _cut(table: Vector, rows: int) -> Vector:
    """The first rows of a table, all of which are stored one after the other."""
    columns = table.values.shape[1]
    if table.values.shape[0] < rows:
        return table
    stored = table.values
    inline = stored.inline[: len(stored.inline) * rows // stored.shape[0]]
    return replace(table, values=replace(stored, shape=(rows, columns), inline=inline))
