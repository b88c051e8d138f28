"""Heads whose width attention has no kernel for get columns of zeros, which change neither scores nor sums.

row [3 heads of 24]  ->  row [3 heads of 32]; attend; [3 heads of 32]  ->  [3 heads of 24]
"""

from __future__ import annotations

from dataclasses import replace

from onnxgen.backends.native.fuse.edits import with_calls
from onnxgen.backends.native.plan import Buffer, Call, Family, StepPlan, View

_LANES, _NARROWEST = 16, 32
_ROLES = (("query", "heads"), ("key", "kv_heads"), ("value", "kv_heads"))


def padded_width(head_dim: int) -> int:
    """The width that attention computes heads of ``head_dim`` with."""
    return max(_NARROWEST, -(-head_dim // _LANES) * _LANES)


def pad_heads(plan: StepPlan) -> StepPlan:
    """Pad the heads around attention where that is needed."""
    calls, buffers, caches = list[Call](), dict(plan.buffers), list(plan.caches)
    for call in plan.calls:
        if call.family is not Family.ATTEND or padded_width(call.number("head_dim")) == call.number(
            "head_dim"
        ):
            calls.append(call)
            continue
        width = call.number("head_dim")
        padded, result = padded_width(width), call.writes["y"]
        row, heads = f"{result.buffer}.padded_row", f"{result.buffer}.padded"
        offset, reads = 0, dict[str, View]()
        for role, count in _ROLES:
            reads[role] = View(row, offset, call.number(count) * padded)
            calls.append(_pad(call, call.reads[role], reads[role], call.number(count), width, padded))
            offset += reads[role].width
        buffers[row] = Buffer(call.rows, offset)
        wide = View(heads, 0, call.number("heads") * padded)
        buffers[heads] = Buffer(call.rows, wide.width)
        parameters = {**call.parameters, "head_dim": padded}
        calls.append(replace(call, reads=reads, writes={"y": wide}, parameters=parameters))
        calls.append(_pad(call, wide, result, call.number("heads"), padded, width))
        caches[call.number("cache")] = replace(caches[call.number("cache")], head_dim=padded)
    return with_calls(replace(plan, caches=tuple(caches)), calls, buffers=buffers)


def _pad(call: Call, source: View, target: View, heads: int, width: int, padded: int) -> Call:
    return Call(
        Family.PAD, call.rows, {"x": source}, {"y": target},
        parameters={"heads": heads, "width": width, "padded": padded}, nodes=call.nodes,
    )  # fmt: skip
