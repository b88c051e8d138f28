"""A plan as people read it: a line for each call, with what it reads and writes and the nodes it does the work of."""

from __future__ import annotations

from onnxgen.backends.native.plan import BlockMatrix, Call, FloatMatrix, Part, StepPlan, View, Weight


def plan_text(plan: StepPlan) -> str:
    """The calls of a plan, one a line; buffers are numbered in the order in which they are written."""
    numbers: dict[str, str] = {}
    rows = [_columns(plan, call, numbers) for call in plan.calls]
    rows.insert(0, ("rows", "call", "result", "arguments", "nodes"))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[4]]) for row in rows
    ]
    results = [("logits", plan.logits), ("hidden states", plan.hidden_states)]
    ends = [f"{name}: {_view(plan, v, numbers)}" for name, v in results if v is not None]
    return "\n".join([*lines, *ends])


def _columns(plan: StepPlan, call: Call, numbers: dict[str, str]) -> tuple[str, str, str, str, str]:
    reads = [f"{role}={_view(plan, view, numbers)}" for role, view in call.reads.items()]
    weights = [f"{role}={_weight(plan.weights[name])}" for role, name in call.weights.items()]
    settings = [f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"
                for name, value in call.parameters.items() if value not in ("", 0)]  # fmt: skip
    for view in call.writes.values():
        numbers.setdefault(view.buffer, f"b{len(numbers)}")
    writes = [_view(plan, view, numbers) for view in call.writes.values()]
    return (
        call.rows.value,
        call.family.value,
        ", ".join(writes),
        ", ".join([*reads, *weights, *settings]),
        " + ".join(call.nodes),
    )


def _view(plan: StepPlan, view: View, numbers: dict[str, str]) -> str:
    """``b3[0:576]``, with the element type where those are not floats."""
    buffer = plan.buffers[view.buffer]
    whole = view.offset == 0 and view.width == buffer.width
    columns = f"{view.width}" if whole else f"{view.offset}:{view.offset + view.width}"
    kind = "" if not buffer.group else f" {buffer.elements.value}"
    return f"{numbers.get(view.buffer, '?')}[{columns}]{kind}"


def _weight(weight: Weight) -> str:
    joint = " x " if weight.interleaved else " | "
    return joint.join(_part(part) for part in weight.parts)


def _part(part: Part) -> str:
    if isinstance(part, BlockMatrix):
        return f"{part.rows}x{part.columns} {part.bits} bits/{part.block_size}"
    if isinstance(part, FloatMatrix):
        return f"{part.rows}x{part.columns} {part.values.dtype}"
    return f"{'x'.join(map(str, part.values.shape))} {part.values.dtype}"
