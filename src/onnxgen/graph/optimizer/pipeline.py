"""Which passes run in which order, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedOpsetsPass

from onnxgen.foundations.tracing import OFF, Tracer
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.optimizer.base import Pass
from onnxgen.graph.optimizer.context import Context, Evaluate
from onnxgen.graph.optimizer.level import OptimizationLevel
from onnxgen.graph.optimizer.passes.activations import ACTIVATIONS
from onnxgen.graph.optimizer.passes.arithmetic import ARITHMETIC
from onnxgen.graph.optimizer.passes.attention import ATTENTION
from onnxgen.graph.optimizer.passes.bias_gelu import BIAS_GELU
from onnxgen.graph.optimizer.passes.casts import CASTS
from onnxgen.graph.optimizer.passes.constant_folding import CONSTANT_FOLDING
from onnxgen.graph.optimizer.passes.constant_shapes import CONSTANT_SHAPES
from onnxgen.graph.optimizer.passes.conv_weights import CONV_WEIGHTS
from onnxgen.graph.optimizer.passes.dead_code import DEAD_CODE
from onnxgen.graph.optimizer.passes.duplicate_code import DUPLICATE_CODE
from onnxgen.graph.optimizer.passes.duplicate_initializers import DUPLICATE_INITIALIZERS
from onnxgen.graph.optimizer.passes.float16_islands import FLOAT16_ISLANDS
from onnxgen.graph.optimizer.passes.fused_matmul import FUSED_MATMUL
from onnxgen.graph.optimizer.passes.gelu import GELU
from onnxgen.graph.optimizer.passes.gemm import GEMM
from onnxgen.graph.optimizer.passes.layer_norm import LAYER_NORM
from onnxgen.graph.optimizer.passes.no_ops import REMOVE_NO_OPS
from onnxgen.graph.optimizer.passes.packed_projections import PACKED_PROJECTIONS
from onnxgen.graph.optimizer.passes.reshapes import RESHAPES
from onnxgen.graph.optimizer.passes.rms_norm import RMS_NORM
from onnxgen.graph.optimizer.passes.rotary import ROTARY
from onnxgen.graph.optimizer.passes.shape_folding import SHAPE_FOLDING
from onnxgen.graph.optimizer.passes.skip_norm import SKIP_NORM
from onnxgen.graph.optimizer.passes.slices import SLICES
from onnxgen.graph.optimizer.passes.swish import SWISH
from onnxgen.graph.optimizer.passes.transpose_sinking import TRANSPOSE_SINKING
from onnxgen.graph.optimizer.passes.transposes import TRANSPOSES
from onnxgen.graph.optimizer.report import PassReport, counted

CLEAN_UP = (
    SHAPE_FOLDING,
    CONSTANT_FOLDING,
    REMOVE_NO_OPS,
    CASTS,
    CONSTANT_SHAPES,
    RESHAPES,
    TRANSPOSES,
    SLICES,
    ARITHMETIC,
    CONV_WEIGHTS,
    DUPLICATE_INITIALIZERS,
    DUPLICATE_CODE,
    DEAD_CODE,
)

PHASES: tuple[tuple[Pass, ...], ...] = (
    CLEAN_UP,
    # Each form before those that would take a part of it.
    (LAYER_NORM, RMS_NORM, GELU, SWISH, ROTARY, ATTENTION, *CLEAN_UP),
    (SKIP_NORM, BIAS_GELU, PACKED_PROJECTIONS, FUSED_MATMUL, *CLEAN_UP),
    (TRANSPOSE_SINKING, GEMM, ACTIVATIONS, FLOAT16_ISLANDS, *CLEAN_UP),
)
"""Groups of passes; each group runs until none of its passes finds anything, at most `MAX_ROUNDS` times."""

MAX_ROUNDS = 10


def optimize(
    model: ir.Model,
    *,
    level: OptimizationLevel,
    can_run: Callable[[NodeSpec], bool],
    trace: Tracer = OFF,
    evaluate: Evaluate | None = None,
) -> tuple[PassReport, ...]:
    """Rewrite a model in place so that it computes the same with less work.

    Inputs and outputs keep their names, order and types. Results are the same: integers exactly, floats up to the order in
    which they are added; NaN and infinities stay where they were.

    Args:
        model: A legal model as the loader returns it, its value types inferred as far as possible.
        level: How far to go.
        can_run: Whether some provider claims a node; only such nodes are created.
        trace: Gets one span for each pass of each round.
        evaluate: Runs a node on arrays for constant folding; without it nothing is folded but shapes.

    Returns:
        What each pass did, in the order in which they first ran.
    """
    context = Context(model, can_run=can_run, evaluate=evaluate)
    did: dict[str, Counter[str]] = {}
    for phase in PHASES:
        passes = [p for p in phase if p.level <= level]
        for _ in range(MAX_ROUNDS):
            if not sum(_run(p, context, trace, did) for p in passes):
                break
    if any(did.values()):
        RemoveUnusedOpsetsPass()(model)
    return tuple(PassReport(name, bool(counts), counted(counts)) for name, counts in did.items())


def _run(pass_: Pass, context: Context, trace: Tracer, did: dict[str, Counter[str]]) -> bool:
    counts: Counter[str] = Counter()
    with trace.span(pass_.name, "optimizer", did=counts):  # read when the span ends
        counts.update(pass_.run(context))
    did.setdefault(pass_.name, Counter()).update(counts)
    return bool(counts)
