"""Reductions: Reduce*, ArgMax, ArgMin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.half import NARROW_FLOATS, widened
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

# the stubs of ufunc.reduce know no optional ``out``
_add: Any = np.add
_multiply: Any = np.multiply
_maximum: Any = np.maximum
_minimum: Any = np.minimum

Axes = tuple[int, ...]
Reduction = Callable[..., Any]
"""``f(x, axes, keepdims, y)``: the reduced array, written into ``y`` where that is not None."""


def reduce_sum(x: np.ndarray, axes: Axes, keepdims: bool, y: np.ndarray | None = None) -> Any:
    """The sum in the type of ``x``; integers wrap."""
    return _add.reduce(x, axes, x.dtype, y, keepdims)


def reduce_prod(x: np.ndarray, axes: Axes, keepdims: bool, y: np.ndarray | None = None) -> Any:
    """The product in the type of ``x``; integers wrap."""
    return _multiply.reduce(x, axes, x.dtype, y, keepdims)


def reduce_max(x: np.ndarray, axes: Axes, keepdims: bool, y: np.ndarray | None = None) -> Any:
    """The maximum; of nothing it is the least value of the type."""
    start = {} if x.size else {"initial": _extreme(x.dtype, least=True)}
    return _maximum.reduce(x, axes, None, y, keepdims, **start)


def reduce_min(x: np.ndarray, axes: Axes, keepdims: bool, y: np.ndarray | None = None) -> Any:
    """The minimum; of nothing it is the greatest value of the type."""
    start = {} if x.size else {"initial": _extreme(x.dtype, least=False)}
    return _minimum.reduce(x, axes, None, y, keepdims, **start)


def reduce_mean(x: np.ndarray, axes: Axes, keepdims: bool, y: np.ndarray | None = None) -> Any:
    """The mean; of integers it is rounded towards zero."""
    if x.dtype.kind == "f":
        total = _add.reduce(x, axes, x.dtype, y, keepdims)
        count = x.size / total.size if total.size else 1.0
        return np.divide(total, x.dtype.type(count), y)
    total = _add.reduce(x, axes, np.float64, None, keepdims)
    return _stored(np.trunc(total / (x.size / total.size if total.size else 1.0)), x.dtype, y)


def reduce_l1(x: np.ndarray, axes: Axes, keepdims: bool, y: np.ndarray | None = None) -> Any:
    """The sum of magnitudes."""
    return reduce_sum(np.absolute(x), axes, keepdims, y)


def reduce_sum_square(x: np.ndarray, axes: Axes, keepdims: bool, y: np.ndarray | None = None) -> Any:
    """The sum of squares."""
    return reduce_sum(np.square(x), axes, keepdims, y)


def reduce_l2(x: np.ndarray, axes: Axes, keepdims: bool, y: np.ndarray | None = None) -> Any:
    """The root of the sum of squares."""
    return _stored(np.sqrt(reduce_sum_square(_as_float(x), axes, keepdims)), x.dtype, y)


def reduce_log_sum(x: np.ndarray, axes: Axes, keepdims: bool, y: np.ndarray | None = None) -> Any:
    """The logarithm of the sum."""
    return _stored(np.log(reduce_sum(_as_float(x), axes, keepdims)), x.dtype, y)


def reduce_log_sum_exp(x: np.ndarray, axes: Axes, keepdims: bool, y: np.ndarray | None = None) -> Any:
    """The logarithm of the sum of exponentials, shifted by the maximum where that is finite."""
    wide = _as_float(x)
    highest = np.asarray(reduce_max(wide, axes, True))
    shift = np.where(np.isfinite(highest), highest, wide.dtype.type(0))
    total = np.log(reduce_sum(np.exp(wide - shift), axes, keepdims))
    return _stored(total + shift.reshape(np.shape(total)), x.dtype, y)


def _extreme(dtype: np.dtype, *, least: bool) -> Any:
    if dtype.kind == "b":
        return not least
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if least else np.iinfo(dtype).max
    return dtype.type(-np.inf if least else np.inf)


def _as_float(x: np.ndarray) -> np.ndarray:
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def _stored(result: Any, dtype: np.dtype, y: np.ndarray | None) -> Any:
    if y is None:
        return np.asarray(result).astype(dtype, copy=False)
    y[...] = result
    return y


def _axes(node: NodeSpec, x: np.ndarray, given: Any) -> Axes:
    """The axes to reduce; none given means all, or with ``noop_with_empty_axes`` none."""
    axes = tuple(int(axis) for axis in (() if given is None else given))
    return axes or (() if node.attr("noop_with_empty_axes", 0) else tuple(range(x.ndim)))


def _reduction(reduction: Reduction, *, axes_are_input: bool) -> Callable[[NodeSpec], Kernel]:
    def make(node: NodeSpec) -> Kernel:
        keepdims = bool(node.attr("keepdims", 1))
        fixed = node.attr("axes")
        gives_axes = node.has_input(1) if axes_are_input else False
        num_inputs = len(node.inputs)

        def reduced(x: np.ndarray, axes: Any, y: np.ndarray | None) -> Any:
            chosen = _axes(node, x, axes if gives_axes else fixed)
            if x.dtype in NARROW_FLOATS:
                result = reduction(widened(x), chosen, keepdims)
                return _stored(result, x.dtype, y)
            return reduction(x, chosen, keepdims, y)

        def run(x: np.ndarray, axes: Any = None) -> np.ndarray:
            return np.asarray(reduced(x, axes, None))

        def into(x: np.ndarray, *axes_and_y: Any) -> None:
            reduced(x, axes_and_y[0] if num_inputs > 1 else None, axes_and_y[-1])

        return Kernel(run, into)

    return make


_REDUCTIONS: dict[str, tuple[Reduction, tuple[int, ...], tuple[int, ...]]] = {
    # versions with axes as attribute, as input
    "ReduceSum": (reduce_sum, (1, 11), (13,)),
    "ReduceMean": (reduce_mean, (1, 11, 13), (18,)),
    "ReduceProd": (reduce_prod, (1, 11, 13), (18,)),
    "ReduceMax": (reduce_max, (1, 11, 12, 13), (18, 20)),
    "ReduceMin": (reduce_min, (1, 11, 12, 13), (18, 20)),
    "ReduceL1": (reduce_l1, (1, 11, 13), (18,)),
    "ReduceL2": (reduce_l2, (1, 11, 13), (18,)),
    "ReduceSumSquare": (reduce_sum_square, (1, 11, 13), (18,)),
    "ReduceLogSum": (reduce_log_sum, (1, 11, 13), (18, 28)),
    "ReduceLogSumExp": (reduce_log_sum_exp, (1, 11, 13), (18, 28)),
}

for _op_type, (_function, _by_attribute, _by_input) in _REDUCTIONS.items():
    _name = _op_type.lower()
    TABLE.operator(_op_type, *_by_attribute, name=f"{_name}/attribute")(
        _reduction(_function, axes_are_input=False)
    )
    TABLE.operator(_op_type, *_by_input, name=_name)(_reduction(_function, axes_are_input=True))


def _arg(op_type: str, find: Callable[..., Any]) -> None:
    @TABLE.operator(op_type, 1, 11, 12, 13, name=op_type.lower())
    def make(node: NodeSpec) -> Kernel:
        """The index of the extreme along ``axis``, the first of equals or with ``select_last_index`` the last."""
        axis, keepdims = node.attr("axis", 0), bool(node.attr("keepdims", 1))
        last = bool(node.attr("select_last_index", 0))

        def run(x: np.ndarray) -> np.ndarray:
            x = widened(x)
            if not last:
                return np.asarray(find(x, axis=axis, keepdims=keepdims))
            return np.asarray(x.shape[axis] - 1 - find(np.flip(x, axis), axis=axis, keepdims=keepdims))

        def into(x: np.ndarray, y: np.ndarray) -> None:
            y[...] = run(x)

        return Kernel(run, into)


_arg("ArgMax", np.argmax)
_arg("ArgMin", np.argmin)
