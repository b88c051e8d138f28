"""Functions of one tensor, element by element: rounding, roots, exponentials, trigonometry, erf, bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.graph.cpu.arrays import Ufunc, formula_kernel, ufunc_kernel
from onnxgen.graph.cpu.erf import erf as compiled_erf
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_OLD = (1, 6, 13)
_TRIGONOMETRIC = (7, 22)
_HYPERBOLIC = (9, 22)

_UFUNCS: dict[str, tuple[tuple[int, ...], Ufunc]] = {
    "Abs": (_OLD, np.absolute),
    "Ceil": (_OLD, np.ceil),
    "Exp": (_OLD, np.exp),
    "Floor": (_OLD, np.floor),
    "Log": (_OLD, np.log),
    "Neg": (_OLD, np.negative),
    "Reciprocal": (_OLD, np.reciprocal),
    "Sqrt": (_OLD, np.sqrt),
    "Tanh": (_OLD, np.tanh),
    "Round": ((11, 22), np.rint),  # halves go to even
    "Sign": ((9, 13), np.sign),
    "Sin": (_TRIGONOMETRIC, np.sin),
    "Cos": (_TRIGONOMETRIC, np.cos),
    "Tan": (_TRIGONOMETRIC, np.tan),
    "Asin": (_TRIGONOMETRIC, np.arcsin),
    "Acos": (_TRIGONOMETRIC, np.arccos),
    "Atan": (_TRIGONOMETRIC, np.arctan),
    "Sinh": (_HYPERBOLIC, np.sinh),
    "Cosh": (_HYPERBOLIC, np.cosh),
    "Asinh": (_HYPERBOLIC, np.arcsinh),
    "Acosh": (_HYPERBOLIC, np.arccosh),
    "Atanh": (_HYPERBOLIC, np.arctanh),
    "Not": ((1,), np.logical_not),
    "BitwiseNot": ((18,), np.invert),
}


def _unary(op_type: str, versions: tuple[int, ...], ufunc: Ufunc) -> None:
    @TABLE.operator(op_type, *versions, name=op_type.lower())
    def make(node: NodeSpec) -> Kernel:
        return ufunc_kernel(ufunc, num_inputs=1)


for _op_type, (_versions, _ufunc) in _UFUNCS.items():
    _unary(_op_type, _versions, _ufunc)


@TABLE.operator("Erf", 9, 13)
def erf(node: NodeSpec) -> Kernel:
    """The error function; of integers it is computed in float64 and cut off."""
    of_float = compiled_erf()

    def write(x: np.ndarray, y: np.ndarray) -> None:
        if x.dtype.kind == "f":
            of_float(x, y)
        else:
            y[...] = of_float(x.astype(np.float64))

    return formula_kernel(write, in_place=True)


@TABLE.operator("IsNaN", 9, 13, 20)
def is_nan(node: NodeSpec) -> Kernel:
    """Whether each element is not a number."""
    return ufunc_kernel(np.isnan, num_inputs=1, in_place=False)


@TABLE.operator("IsInf", 10, 20)
def is_inf(node: NodeSpec) -> Kernel:
    """Whether each element is infinite, of the signs that the attributes ask for."""
    negative, positive = bool(node.attr("detect_negative", 1)), bool(node.attr("detect_positive", 1))

    def infinite(x: np.ndarray, y: np.ndarray | None = None) -> Any:
        if negative and positive:
            return np.isinf(x, y)
        sign = np.signbit(x) if negative else ~np.signbit(x)
        return np.logical_and(np.isinf(x), sign if negative or positive else False, y)

    return ufunc_kernel(infinite, num_inputs=1, in_place=False)
