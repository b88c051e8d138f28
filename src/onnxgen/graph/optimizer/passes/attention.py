"""Attention written out becomes one operator: Attention from opset 23 on, MultiHeadAttention before.

The operator takes the place of the products, the scaling, the mask and the softmax only. What splits and merges the heads around
it (Reshape, Transpose) meets its mirror image here, and both go when reshapes and transposes are cleaned up.

A row whose scores are all minus infinity is NaN where it is written out; operators may say 0, as the standard defines it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.graph.ir.types import Dim, numpy_dtype
from onnxgen.graph.optimizer.attention_form import AttentionForm, find
from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import (
    MICROSOFT,
    dims,
    dtype,
    fits_attribute,
    is_real,
    maker,
    permutation,
    rank,
)
from onnxgen.graph.optimizer.level import OptimizationLevel

_SWAP = (0, 2, 1, 3)


def attention(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``softmax(q @ k * scale + mask) @ v``."""
    form = find(node, context.opset())
    if form is None or not is_real(form.q) or not fits_attribute(form.scale, form.q):
        return
    if context.opset() >= 23:
        yield _standard(form, node, context)
    yield _contrib(form, node, context)


def _standard(form: AttentionForm, node: ir.Node, context: Context) -> Edit:
    edit = Edit(context, node, attentions_fused=1)
    k = _keys(edit, form)
    attributes: dict[str, Any] = {"scale": form.scale}
    if form.rank == 3:
        attributes |= {"q_num_heads": 1, "kv_num_heads": 1}
    mask = _standard_mask(edit, form, context.opset())
    return edit.replace(node.outputs[0], edit.op("Attention", form.q, k, form.v, mask, **attributes))


def _contrib(form: AttentionForm, node: ir.Node, context: Context) -> Edit:
    edit = Edit(context, node, attentions_fused=1)
    q = dims(form.q)
    assert q is not None
    heads = int(q[1] or 1) if form.rank == 4 else 1
    k, v = _keys_and_values(edit, form)
    attributes: dict[str, Any] = {"num_heads": heads, "scale": form.scale}
    inputs = [_merged(edit, form.q, heads), k, v, None, None, _contrib_mask(edit, form, context.opset())]
    if form.rank == 3:
        return edit.replace(
            node.outputs[0], edit.op("MultiHeadAttention", *inputs, domain=MICROSOFT, **attributes)
        )
    v_dims = dims(form.v)
    assert v_dims is not None
    width = int(v_dims[-1] or 0)
    flat = edit.op(
        "MultiHeadAttention", *inputs, domain=MICROSOFT, **attributes,
        dtype=dtype(form.q), shape=(q[0], q[2], heads * width),
    )  # fmt: skip
    split = edit.op(
        "Reshape",
        flat,
        np.asarray((0, 0, heads, width)),
        dtype=dtype(form.q),
        shape=(q[0], q[2], heads, width),
    )
    return edit.replace(node.outputs[0], edit.op("Transpose", split, perm=_SWAP))


def _keys(edit: Edit, form: AttentionForm) -> ir.Value:
    if form.k_order is None:
        return form.k
    return edit.op("Transpose", form.k, perm=form.k_order, dtype=dtype(form.k), shape=form.key_dims)


def _keys_and_values(edit: Edit, form: AttentionForm) -> tuple[ir.Value, ir.Value]:
    """Both with merged heads where both were split from there, else both with heads as they are (a cache's)."""
    if form.rank == 3:
        return _keys(edit, form), form.v
    heads = int(form.key_dims[1] or 1)
    k_split = form.k_order == _SWAP or (form.k_order is None and _is_swapped(form.k))
    if k_split and _is_swapped(form.v):
        return _merged(edit, _keys(edit, form), heads), _merged(edit, form.v, heads)
    return _keys(edit, form), form.v


def _is_swapped(value: ir.Value) -> bool:
    node = maker(value)
    return node is not None and node.op_type == "Transpose" and not node.domain and permutation(node) == _SWAP


def _merged(edit: Edit, value: ir.Value, heads: int) -> ir.Value:
    """``[batch, heads, seq, head_dim]`` as ``[batch, seq, heads * head_dim]``."""
    found = dims(value)
    assert found is not None
    if len(found) == 3:
        return value
    batch, _, seq, width = found
    swapped = edit.op("Transpose", value, perm=_SWAP, dtype=dtype(value), shape=(batch, seq, heads, width))
    merged = heads * int(width or 0)
    return edit.op(
        "Reshape", swapped, np.asarray((0, 0, merged)), dtype=dtype(value), shape=(batch, seq, merged)
    )


def _mask(edit: Edit, form: AttentionForm) -> ir.Value | None:
    """All that is added to the scores, as one value."""
    where = form.seen or form.hidden
    if where is None:
        return form.mask
    element = dtype(form.q) or ir.DataType.FLOAT
    zero, fill = (np.asarray(x, numpy_dtype(element)) for x in (0, form.fill))
    options = (zero, fill) if form.seen is not None else (fill, zero)
    bias = edit.op("Where", where, *options, dtype=element, shape=dims(where))
    if form.mask is None:
        return bias
    both = dims(where), dims(form.mask)
    unknown = (None,) * max(len(found) for found in both if found is not None)
    return edit.op("Add", bias, form.mask, dtype=element, shape=unknown)


def _standard_mask(edit: Edit, form: AttentionForm, opset: int) -> ir.Value | None:
    """The mask as Attention broadcasts it: any axis but the last, which it would fill with minus infinity."""
    mask = _mask(edit, form)
    if mask is None:
        return None
    found = dims(mask)
    if found is None or found[-1] is None or found[-1] != form.key_dims[-2]:
        return _spread(edit, form, mask, opset)
    return _of_rank_4(edit, mask, batch_first=True) if form.rank == 3 else mask


def _of_rank_4(edit: Edit, mask: ir.Value, *, batch_first: bool) -> ir.Value:
    """A mask with leading axes of size 1; with one for the heads where the first axis of three is the batch."""
    known = rank(mask)
    if known is None or known == 4:
        return mask
    axes = (1,) if batch_first and known == 3 else tuple(range(4 - known))
    found = list(dims(mask) or ())
    for axis in axes:
        found.insert(axis, 1)
    return edit.op("Unsqueeze", mask, np.asarray(axes), dtype=dtype(mask), shape=tuple(found))


def _contrib_mask(edit: Edit, form: AttentionForm, opset: int) -> ir.Value | None:
    mask = _mask(edit, form)
    return None if mask is None else _spread(edit, form, mask, opset)


def _spread(edit: Edit, form: AttentionForm, mask: ir.Value, opset: int) -> ir.Value:
    """The mask as ``[1 or batch, 1 or heads, seq, total]``: MultiHeadAttention broadcasts the first two axes only."""
    mask = _of_rank_4(edit, mask, batch_first=form.rank == 3)
    q, k, found = dims(form.q), form.key_dims, dims(mask)
    assert q is not None
    wanted: tuple[Dim, Dim] = (q[-2], k[-2])
    if found is not None and found[-2:] == wanted and None not in wanted:
        return mask
    element = dtype(mask)
    one = np.asarray([1])
    k_axis = len(k) - 2 if form.k_order is None else form.k_order[-2]
    q_axis = len(q) - 2
    sizes = [_size(edit, value, axis, opset) for value, axis in ((form.q, q_axis), (form.k, k_axis))]
    target = edit.op("Concat", one, one, *sizes, axis=0, dtype=ir.DataType.INT64, shape=(4,))
    head = (None, None) if found is None else found[:2]
    return edit.op("Expand", mask, target, dtype=element, shape=(*head, *wanted))


def _size(edit: Edit, value: ir.Value, axis: int, opset: int) -> ir.Value:
    """The size of one axis as a vector of one element; Shape can say it alone from opset 15 on."""
    if opset >= 15:
        return edit.op("Shape", value, start=axis, end=axis + 1, dtype=ir.DataType.INT64, shape=(1,))
    sizes = edit.op("Shape", value, dtype=ir.DataType.INT64, shape=(rank(value),))
    return edit.op("Gather", sizes, np.asarray([axis]), axis=0, dtype=ir.DataType.INT64, shape=(1,))


ATTENTION = rewriting("attention", OptimizationLevel.EXTENDED, {"MatMul": attention})
