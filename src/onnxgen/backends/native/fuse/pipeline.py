"""Which rewrites run in which order."""

from __future__ import annotations

from onnxgen.backends.native.fuse.attention_rows import share_attention_rows
from onnxgen.backends.native.fuse.functions import fuse_functions
from onnxgen.backends.native.fuse.head_last import head_last
from onnxgen.backends.native.fuse.head_widths import pad_heads
from onnxgen.backends.native.fuse.heads import fuse_heads
from onnxgen.backends.native.fuse.joined import join_products
from onnxgen.backends.native.fuse.quantized import quantize_activations
from onnxgen.backends.native.fuse.residuals import fuse_residuals
from onnxgen.backends.native.fuse.sums import fuse_sums
from onnxgen.backends.native.fuse.tied import share_tied_tables
from onnxgen.backends.native.fuse.wanted import select_early
from onnxgen.backends.native.plan import StepPlan

_REWRITES = (
    select_early,
    head_last,
    fuse_functions,
    fuse_sums,
    fuse_heads,
    # From here on a buffer may have several writers.
    share_attention_rows,
    pad_heads,
    join_products,
    fuse_residuals,
    quantize_activations,
    share_tied_tables,
)


def fuse_plan(plan: StepPlan) -> StepPlan:
    """Rewrite a plan so that it computes the same in fewer calls."""
    for rewrite in _REWRITES:
        plan = rewrite(plan)
    return plan
