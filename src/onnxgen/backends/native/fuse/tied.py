"""An embedding that is the head's matrix, in blocks, is packed once: rows of it are taken from the packed head."""

from __future__ import annotations

import math
from dataclasses import replace

from onnxgen.backends.native.fuse.edits import with_calls
from onnxgen.backends.native.plan import BlockMatrix, Family, Part, StepPlan


def share_tied_tables(plan: StepPlan) -> StepPlan:
    """Let embeddings look up rows in a product's matrix where both are the same bytes."""
    matrices = {
        _identity(weight.parts[0]): call.weights["matrix"]
        for call in plan.calls
        if call.family is Family.PRODUCT
        and len((weight := plan.weights[call.weights["matrix"]]).parts) == 1
        and isinstance(weight.parts[0], BlockMatrix)
    }
    calls = [
        replace(call, weights={**call.weights, "table": matrices[own]})
        if call.family is Family.EMBED
        and (own := _identity(plan.weights[call.weights["table"]].parts[0])) in matrices
        else call
        for call in plan.calls
    ]
    return with_calls(plan, calls)


def _identity(part: Part) -> object:
    """The same for matrices of the same bytes, whatever shape those are stored under."""
    if not isinstance(part, BlockMatrix):
        return part
    stored = [
        None if s is None else (s.dtype, s.file, s.offset, s.inline, math.prod(s.shape))
        for s in (part.codes, part.scales, part.zeros)
    ]
    return (part.rows, part.columns, part.bits, part.block_size, *stored)
