"""Arithmetic of two and more tensors: Add, Sub, Mul, Div, Mod, Pow, Max, Min, Sum, Mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.arrays import Ufunc, ufunc_kernel
from onnxgen.graph.cpu.broadcasting import with_legacy_broadcast
from onnxgen.graph.cpu.half import NARROW_FLOATS, widened
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


def divide(a: np.ndarray, b: np.ndarray, y: np.ndarray | None = None) -> Any:
    """Div: integers round towards zero, and divided by zero they give 0 (the standard leaves it open)."""
    if a.dtype.kind == "u":
        return np.floor_divide(a, b, y)
    if a.dtype.kind == "i":
        return np.floor_divide(a - np.fmod(a, b), b, y)
    return np.divide(a, b, y)


_BINARY: dict[str, Ufunc] = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": divide}


def _binary(op_type: str, ufunc: Ufunc) -> None:
    @TABLE.operator(op_type, 7, 13, 14, name=op_type.lower())
    def newest(node: NodeSpec) -> Kernel:
        return ufunc_kernel(ufunc, num_inputs=2)

    @TABLE.operator(op_type, 1, 6, name=f"{op_type.lower()}/axis")
    def before_7(node: NodeSpec) -> Kernel:
        return with_legacy_broadcast(node, newest(node))


for _op_type, _ufunc in _BINARY.items():
    _binary(_op_type, _ufunc)


@TABLE.operator("Mod", 10, 13, 28)
def mod(node: NodeSpec) -> Kernel:
    """The sign of the divisor, or with ``fmod=1`` of the dividend; integers modulo 0 give 0."""
    return ufunc_kernel(np.fmod if node.attr("fmod", 0) else np.remainder, num_inputs=2)


def power(x: np.ndarray, exponent: np.ndarray, y: np.ndarray | None = None) -> Any:
    """Pow in the type of ``x``; other types of the exponent are met in float64, and narrow ones in float32."""
    if x.dtype == exponent.dtype and x.dtype.kind == "f":
        return np.power(x, exponent, y)
    both_integers = x.dtype.kind in "iu" and exponent.dtype.kind in "iu"
    if both_integers and (exponent.dtype.kind == "u" or not (exponent < 0).any()):
        result = np.power(x, exponent.astype(x.dtype))
    else:
        in_float32 = x.dtype in NARROW_FLOATS | {np.dtype(np.float32)} and exponent.dtype != np.float64
        wide = np.float32 if in_float32 else np.float64
        result = np.power(x.astype(wide), exponent.astype(wide))
    if y is None:
        return result.astype(x.dtype)
    y[...] = result
    return y


@TABLE.operator("Pow", 7, 12, 13, 15)
def pow_(node: NodeSpec) -> Kernel:
    """``x ** exponent`` with broadcasting."""
    return ufunc_kernel(power, num_inputs=2)


@TABLE.operator("Pow", 1, name="pow/axis")
def pow_before_7(node: NodeSpec) -> Kernel:
    """The same with the attributes ``broadcast`` and ``axis``."""
    return with_legacy_broadcast(node, pow_(node))


def _folded(
    ufunc: Callable[..., Any], finish: Callable[..., Any] | None = None
) -> Callable[[NodeSpec], Kernel]:
    """Any number of inputs, one after the other; narrow types are rounded once at the end."""

    def make(node: NodeSpec) -> Kernel:
        num_inputs = len(node.inputs)

        def into(*arguments: np.ndarray) -> None:
            *inputs, y = arguments
            if y.dtype in NARROW_FLOATS:
                y[...] = folded([widened(x) for x in inputs])
                return
            if num_inputs == 1:
                np.copyto(y, inputs[0])
            else:
                ufunc(inputs[0], inputs[1], out=y)
            for x in inputs[2:]:
                ufunc(y, x, out=y)
            if finish:
                finish(y, num_inputs, y)

        def folded(inputs: list[np.ndarray]) -> np.ndarray:
            y = np.empty(np.broadcast_shapes(*(x.shape for x in inputs)), inputs[0].dtype)
            into(*inputs, y)
            return y

        # a third input is read after the output was first written
        in_place = tuple((0, index) for index in range(min(2, num_inputs)))
        return Kernel(lambda *inputs: folded(list(inputs)), into, in_place=in_place)

    return make


TABLE.operator("Max", 1, 6, 8, 12, 13, name="max")(_folded(np.maximum))
TABLE.operator("Min", 1, 6, 8, 12, 13, name="min")(_folded(np.minimum))
TABLE.operator("Sum", 1, 6, 8, 13, name="sum")(_folded(np.add))
TABLE.operator("Mean", 1, 6, 8, 13, name="mean")(_folded(np.add, np.divide))
