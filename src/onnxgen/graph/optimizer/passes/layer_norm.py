"""Layer normalization written out becomes LayerNormalization."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import (
    broadcasts_into,
    computes_in_float,
    dtype,
    maker,
    rank,
    reduces_last,
    scalar,
)
from onnxgen.graph.optimizer.level import OptimizationLevel
from onnxgen.graph.optimizer.pattern import Const, Match, Var, either, matches, maybe, op

_X = Var("x")
_CENTERED = op("Sub", _X, op("ReduceMean", _X, name="mean"), name="centered")
_SQUARED = either(
    op("Pow", maybe("Cast", _CENTERED), 2), op("Mul", maybe("Cast", _CENTERED), maybe("Cast", _CENTERED))
)
_DEVIATION = op("Sqrt", op("Add", op("ReduceMean", _SQUARED, name="variance"), Const(name="epsilon")))
_NORMALIZED = either(
    op("Div", maybe("Cast", _CENTERED), _DEVIATION),
    op("Mul", maybe("Cast", _CENTERED), op("Reciprocal", _DEVIATION)),
    op("Mul", maybe("Cast", _CENTERED), op("Div", 1, _DEVIATION)),
)
_SCALED = op("Mul", maybe("Cast", _NORMALIZED), Var("scale"))
_SHIFTED = op("Add", _SCALED, Var("shift"))


def shifted(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``normalize(x) * scale + shift``."""
    yield from _fused(matches(_SHIFTED, node.outputs[0]), node, context)


def scaled(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``normalize(x) * scale``."""
    yield from _fused(matches(_SCALED, node.outputs[0]), node, context)


def _fused(found: Iterator[Match], node: ir.Node, context: Context) -> Iterator[Edit]:
    for match in found:
        x = match["x"]
        axes = _axes(match, context)
        parameters = [match[name] for name in ("scale", "shift") if name in match]
        # With casts inside, x is widened, normalized and narrowed again: what stash_type says of the one operator.
        if (
            axes is None
            or not match.closed()
            or any(dtype(p) is not dtype(x) for p in (*parameters, node.outputs[0]))
        ):
            continue
        if not computes_in_float(x, match.nodes) or not all(broadcasts_into(p, x) for p in parameters):
            continue
        epsilon = scalar(match["epsilon"])
        assert epsilon is not None
        edit = Edit(context, node, layer_normalizations_fused=1)
        y = edit.op("LayerNormalization", x, *parameters, axis=-axes, epsilon=float(epsilon))
        yield edit.replace(node.outputs[0], y)


def _axes(match: Match, context: Context) -> int | None:
    """How many of the last axes are normalized, the same for mean and variance."""
    nodes = [maker(match[name]) for name in ("mean", "variance")]
    counts = {reduces_last(n, context.opset()) for n in nodes if n is not None}
    epsilon = match["epsilon"]
    return (
        counts.pop()
        if len(counts) == 1 and scalar(epsilon) is not None and (rank(epsilon) or 0) <= 1
        else None
    )


LAYER_NORM = rewriting("layer_norm", OptimizationLevel.EXTENDED, {"Add": shifted}, {"Mul": scaled})
