"""Cast, CastLike and BitCast."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.cpu.casting import STRINGS, cast
from onnxgen.graph.cpu.half import NARROW_FLOATS
from onnxgen.graph.cpu.half_conversion import converted
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import is_ml_dtype, numpy_dtype

TABLE = KernelTable()


@TABLE.operator("Cast", 1, 6, 9, 13, 19, 21, 23, 24, 25, 28, name="cast")
def make_cast(node: NodeSpec) -> Kernel:
    """Elements in the type ``to``; in version 1 that is its name."""
    to = node.attr("to")
    target = numpy_dtype(ir.DataType[to.upper()] if isinstance(to, str) else ir.DataType(to))
    if node.input_dtype(0) is not ir.DataType.UNDEFINED and numpy_dtype(node.input_dtype(0)) == target:
        return Kernel(_identity, _copy, may_alias=((0, 0),), in_place=((0, 0),))
    saturate, round_mode = bool(node.attr("saturate", 1)), node.attr("round_mode", "up")

    def run(x: np.ndarray) -> np.ndarray:
        return cast(x, target, saturate=saturate, round_mode=round_mode)

    def into(x: np.ndarray, y: np.ndarray) -> None:
        if _converts_by_copy(x.dtype, y.dtype):
            converted(x, y.dtype, y)
        else:
            y[...] = run(x)

    return Kernel(run, into)


@TABLE.operator("CastLike", 15, 19, 21, 23, 24, 25)
def cast_like(node: NodeSpec) -> Kernel:
    """Elements in the type of the second input."""
    saturate, round_mode = bool(node.attr("saturate", 1)), node.attr("round_mode", "up")

    def run(x: np.ndarray, like: np.ndarray) -> np.ndarray:
        return cast(x, like.dtype, saturate=saturate, round_mode=round_mode)

    def into(x: np.ndarray, like: np.ndarray, y: np.ndarray) -> None:
        y[...] = run(x, like)

    return Kernel(run, into)


@TABLE.operator("BitCast", 26)
def bit_cast(node: NodeSpec) -> Kernel:
    """The same bits read as another type of the same width."""
    target, source = ir.DataType(node.attr("to")), node.input_dtype(0)
    known = source is not ir.DataType.UNDEFINED
    if target is ir.DataType.STRING or source is ir.DataType.STRING:
        raise InvalidGraphError(f"{node}: strings have no fixed bits to read as another type")
    if known and source.bitwidth != target.bitwidth:
        raise InvalidGraphError(
            f"{node}: {source.name} has {source.bitwidth} bits, {target.name} has {target.bitwidth}"
        )
    dtype = numpy_dtype(target)

    def run(x: np.ndarray) -> np.ndarray:
        return x.view(dtype)

    def into(x: np.ndarray, y: np.ndarray) -> None:
        y[...] = x.view(dtype)

    return Kernel(run, into, may_alias=((0, 0),))


def _identity(x: np.ndarray) -> np.ndarray:
    return x


def _copy(x: np.ndarray, y: np.ndarray) -> None:
    np.copyto(y, x)


def _converts_by_copy(source: np.dtype, target: np.dtype) -> bool:
    """Whether an assignment says all; float8 saturates, bool and strings have rules of their own."""
    if is_ml_dtype(target) or target.kind not in "iuf":
        return False
    return source in NARROW_FLOATS or (not is_ml_dtype(source) and source != STRINGS)
