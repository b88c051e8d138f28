"""Tensors made from shapes and a few numbers: Constant, ConstantOfShape, Range, EyeLike, OneHot, Shape, Size."""

from __future__ import annotations

from math import ceil, isfinite

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.indexing import checked_axis, filled, integers, scalar
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import numpy_dtype

TABLE = KernelTable()

_NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))

_CONSTANTS = {
    "value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": object,
    "value_strings": object,
}
"""Element types by attribute; a tensor has its own."""


@TABLE.operator("Constant", 1, 9, 11, 12, 13, 19, 21, 23, 24, 25)
def constant(node: NodeSpec) -> Kernel:
    """The value of the attribute, the same memory at each run, read-only."""
    given = [name for name in _CONSTANTS if name in node.attributes]
    if len(given) != 1:
        raise InvalidGraphError(f"{node}: has the attributes {sorted(node.attributes)}; one value is needed")
    value = np.asarray(node.attr(given[0]), _CONSTANTS[given[0]]).view()
    value.flags.writeable = False

    def run() -> np.ndarray:
        return value

    return Kernel(run)


@TABLE.operator("ConstantOfShape", 9, 20, 21, 23, 24, 25)
def constant_of_shape(node: NodeSpec) -> Kernel:
    """One value (0.0 by default) in every place."""
    value: np.ndarray = node.attr("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise InvalidGraphError(f"{node}: its value needs one element, its shape is {value.shape}")
    fill = value.reshape(-1)[0]

    def run(shape: np.ndarray) -> np.ndarray:
        wanted = integers(shape)
        if min(wanted, default=0) < 0:
            raise KernelError(f"{node}: shape {wanted} has a negative dimension")
        require_memory(node, wanted, value.dtype)
        return filled(tuple(wanted), value.dtype, fill)

    def into(shape: np.ndarray, y: np.ndarray) -> None:
        y[...] = fill

    return Kernel(run, into)


@TABLE.operator("Range", 11, 27)
@TABLE.operator("Range", 1, domain=MICROSOFT)
def range_(node: NodeSpec) -> Kernel:
    """``start + i * delta`` up to ``limit``; 16-bit floats are computed in float32 where ``stash_type`` says so."""
    in_float32 = node.attr("stash_type", 1) == ir.DataType.FLOAT

    def run(start: np.ndarray, limit: np.ndarray, delta: np.ndarray | None = None) -> np.ndarray:
        dtype = start.dtype
        first, end = scalar(node, start, "start"), scalar(node, limit, "limit")
        step = 1 if delta is None else scalar(node, delta, "delta")
        if step == 0:
            raise KernelError(f"{node}: delta is 0")
        exact = isinstance(first, int)
        steps = -((first - end) // step) if exact else (end - first) / step
        if not isfinite(steps):
            raise KernelError(f"{node}: no number of elements lies between {first} and {end} by {step}")
        count = max(0, ceil(steps))
        narrow = dtype in _NARROW
        work = np.dtype(np.float32) if narrow and in_float32 else dtype
        require_memory(node, (count,), np.dtype(np.int64))
        places = np.arange(count, dtype=np.int64).astype(work)
        return np.asarray(places * work.type(step) + work.type(first)).astype(dtype, copy=False)

    return Kernel(run)


@TABLE.operator("EyeLike", 9, 22)
def eye_like(node: NodeSpec) -> Kernel:
    """Ones on a diagonal, in the shape of a matrix."""
    wanted, k = node.attr("dtype"), node.attr("k", 0)

    def run(x: np.ndarray) -> np.ndarray:
        if x.ndim != 2:
            raise KernelError(f"{node}: needs a matrix, its input is of shape {x.shape}")
        y = filled(x.shape, x.dtype if wanted is None else numpy_dtype(ir.DataType(wanted)))
        rows, columns = x.shape
        if -rows < k < columns:
            np.fill_diagonal(y[max(0, -k) :, max(0, k) :], 1)
        return y

    return Kernel(run)


@TABLE.operator("OneHot", 9, name="one_hot_of_positive")
@TABLE.operator("OneHot", 11, 28)
def one_hot(node: NodeSpec) -> Kernel:
    """The on value at the index, off values elsewhere on the new axis; from version 11 negative indices count from its end."""
    axis = node.attr("axis", -1)
    wraps = node.since_version > 9

    def run(indices: np.ndarray, depth: np.ndarray, values: np.ndarray) -> np.ndarray:
        size = int(scalar(node, depth, "depth"))
        at = checked_axis(node, axis, indices.ndim + 1)
        if values.shape != (2,) or size < 0:
            raise KernelError(f"{node}: values {values.shape} need shape (2,) and depth {size} at least 0")
        require_memory(node, (*indices.shape, size), values.dtype)
        places = np.expand_dims(indices.astype(np.int64), at)
        if wraps:
            places = np.where(places < 0, places + size, places)
        classes = np.arange(size).reshape((size,) + (1,) * (indices.ndim - at))
        return np.where(places == classes, values[1], values[0]).astype(values.dtype, copy=False)

    return Kernel(run)


@TABLE.operator("Shape", 1, 13, 15, 19, 21, 23, 24, 25)
def shape_of(node: NodeSpec) -> Kernel:
    """Dimensions from ``start`` to ``end``, as int64."""
    start, end = node.attr("start", 0), node.attr("end")

    def run(x: np.ndarray) -> np.ndarray:
        return np.array(x.shape[start:end], np.int64)

    def into(x: np.ndarray, y: np.ndarray) -> None:
        y[...] = x.shape[start:end]

    return Kernel(run, into)


@TABLE.operator("Size", 1, 13, 19, 21, 23, 24, 25)
def size_of(node: NodeSpec) -> Kernel:
    """The number of elements, as an int64 scalar."""

    def run(x: np.ndarray) -> np.ndarray:
        return np.array(x.size, np.int64)

    def into(x: np.ndarray, y: np.ndarray) -> None:
        y[...] = x.size

    return Kernel(run, into)
