"""Attention written out: ``softmax(q @ k * scale + mask) @ v``, found back from the last product."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import onnx_ir as ir

from onnxgen.graph.ir.types import Dim
from onnxgen.graph.optimizer.facts import (
    attr,
    dims,
    dtype,
    input_at,
    maker,
    permutation,
    rank,
    scalar,
    static_dim,
)
from onnxgen.graph.optimizer.pattern import Const, Match, Op, Var, either, matches, op

_PRODUCT = op("MatMul", Var("q"), Var("k_transposed"))
_SCALED = either(
    op("Mul", _PRODUCT, Const(name="factor")), op("Div", _PRODUCT, Const(name="divisor")), _PRODUCT
)
_HIDDEN = either(
    op("Where", Var("seen"), _SCALED, Const(name="fill")),
    op("Where", Var("hidden"), Const(name="fill"), _SCALED),
    _SCALED,
)
_SCORES = either(op("Add", _HIDDEN, Var("mask")), _HIDDEN)
_LOWEST = -1e30  # a float32 below that does not change when a score is added to it


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """One attention, of rank 4 ``[batch, heads, seq, head_dim]``, or of rank 3 with the heads in the batch.

    Attributes:
        q: Queries, before any scaling that ``scale`` has.
        k: Keys, not transposed, in the layout of ``k_order``.
        v: Values.
        k_order: How to transpose ``k`` to the layout of ``q``; None where it has it.
        scale: What scores are multiplied by.
        mask: What is added to the scores.
        seen: Where scores stay; elsewhere they become ``fill``.
        hidden: Where scores become ``fill``.
        fill: A number so low that softmax makes it 0.
    """

    q: ir.Value
    k: ir.Value
    v: ir.Value
    k_order: tuple[int, ...] | None
    scale: float
    mask: ir.Value | None = None
    seen: ir.Value | None = None
    hidden: ir.Value | None = None
    fill: float | None = None

    @property
    def rank(self) -> int:
        """3 or 4."""
        found = rank(self.q)
        assert found is not None
        return found

    @property
    def key_dims(self) -> tuple[Dim, ...]:
        """Dimensions of the keys in the layout of the queries."""
        found = dims(self.k)
        assert found is not None
        return found if self.k_order is None else tuple(found[axis] for axis in self.k_order)


def find(node: ir.Node, opset: int) -> AttentionForm | None:
    """The attention whose last product is that MatMul; None where there is none, or where others use its scores."""
    for match in matches(op("MatMul", _softmax(opset), Var("v")), node.outputs[0]):
        form = _form(match) if match.closed() else None
        if form is not None and _consistent(form):
            return form
    return None


def _softmax(opset: int) -> Op:
    def last_axis(node: ir.Node) -> bool:
        axis, known = attr(node, "axis", -1 if opset >= 13 else 1), rank(input_at(node, 0))
        return axis == -1 or (known is not None and axis == known - 1)

    return op("Softmax", _SCORES, where=last_axis)


def _form(match: Match) -> AttentionForm | None:
    scale = _scale(match)
    q, of_q = _unscaled(match["q"])
    k_transposed, of_k = _unscaled(match["k_transposed"])
    node = maker(k_transposed)
    if scale is None or node is None or node.op_type != "Transpose" or node.domain:
        return None
    k, perm = input_at(node, 0), permutation(node)
    if k is None or perm is None or len(perm) not in (3, 4):
        return None
    # [.., head_dim, seq] back to [.., seq, head_dim]
    order = (*perm[:-2], perm[-1], perm[-2])
    fill = scalar(match["fill"]) if "fill" in match else None
    if "fill" in match and (fill is None or fill > _LOWEST or dtype(q) is not ir.DataType.FLOAT):
        return None
    optional = {name: match[name] for name in ("mask", "seen", "hidden") if name in match}
    k_order = None if order == tuple(range(len(order))) else order
    return AttentionForm(q, k, match["v"], k_order, scale * of_q * of_k, fill=fill, **optional)


def _scale(match: Match) -> float | None:
    if "factor" in match:
        return _number(match["factor"])
    if "divisor" in match:
        divisor = _number(match["divisor"])
        return 1 / divisor if divisor else None
    return 1.0


def _unscaled(value: ir.Value) -> tuple[ir.Value, float]:
    """What a value is a multiple of, and the factor."""
    node = maker(value)
    if node is None or node.domain or node.op_type not in ("Mul", "Div") or len(node.inputs) != 2:
        return value, 1.0
    left, right = node.inputs
    for inner, other in ((left, right), (right, left)):
        number = None if other is None else _number(other)
        if inner is not None and number and (rank(other) or 0) <= (rank(inner) or 0):
            if node.op_type == "Mul":
                return inner, number
            return (inner, 1 / number) if inner is left else (value, 1.0)
    return value, 1.0


def _number(value: ir.Value) -> float | None:
    found = scalar(value)
    return float(found) if found is not None and isfinite(found) and (rank(value) or 0) <= 3 else None


def _consistent(form: AttentionForm) -> bool:
    """Ranks, batches and heads are known and equal, so that no product broadcasts them."""
    q, v = dims(form.q), dims(form.v)
    if q is None or v is None or dims(form.k) is None or len(q) not in (3, 4):
        return False
    k = form.key_dims
    if not len(q) == len(k) == len(v) or form.scale <= 0:
        return False
    if None in q[:-2] or not q[:-2] == k[:-2] == v[:-2]:
        return False
    if None in (static_dim(form.q, -1), static_dim(form.v, -1)) or not (len(q) == 3 or isinstance(q[1], int)):
        return False
    return all(_keeps_scores(value, q) for value in (form.mask, form.seen, form.hidden) if value is not None)


def _keeps_scores(mask: ir.Value, q: tuple[Dim, ...]) -> bool:
    """Whether a mask has no batch or heads of its own that would widen the scores."""
    found = dims(mask)
    if found is None or not 2 <= len(found) <= len(q):
        return False
    outer = found[:-2]
    return all(d in (1, of_q) for d, of_q in zip(outer, q[len(q) - len(found) :], strict=False))
