"""What rules share while one graph is lowered: meanings of values, and the plan so far."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxgen.backends.native.lower.meanings import (
    Constant,
    DeclineError,
    Known,
    Meaning,
    RowsOf,
    Sample,
    Shape,
    Unknown,
)
from onnxgen.backends.native.plan import (
    Buffer,
    CacheLayer,
    Call,
    Family,
    FloatMatrix,
    Parameter,
    Part,
    RowKind,
    Stored,
    Vector,
    View,
    Weight,
)
from onnxgen.graph.ir.attributes import attribute_value
from onnxgen.graph.ir.extents import extent_of
from onnxgen.graph.ir.types import numpy_dtype

FLOATS = frozenset(np.dtype(kind) for kind in (np.float32, np.float16, ml_dtypes.bfloat16))


class Lowering:
    """One graph on its way to a plan.

    Attributes:
        samples: Sequences for which values that follow from lengths are worked out.
        switch_length: Longer sequences use other rotary tables.
        opsets: What the model imports.
        meanings: What each value means.
        caches: Layers of attention so far.
        positions: The fewest positions that a rotary table has.
    """

    def __init__(
        self, samples: tuple[Sample, ...], *, switch_length: int | None, opsets: Mapping[str, int]
    ) -> None:
        self.samples, self.switch_length, self.opsets = samples, switch_length, opsets
        self.meanings: dict[ir.Value, Meaning] = {}
        self.caches: list[CacheLayer] = []
        self.positions: int | None = None
        self.calls: list[Call] = []
        self.buffers: dict[str, Buffer] = {}
        self.weights: dict[str, Weight] = {}
        self._weight_names: dict[tuple[Weight, bool], str] = {}

    def meaning(self, value: ir.Value | None) -> Meaning | None:
        """What a value means; None for an input that is left out."""
        if value is None:
            return None
        if value not in self.meanings:
            if value.const_value is None:
                return Unknown()
            self.meanings[value] = constant_of(value.const_value)
        return self.meanings[value]

    def emit(
        self,
        node: ir.Node,
        family: Family,
        like: RowsOf | None = None,
        *,
        width: int,
        reads: Mapping[str, RowsOf] | None = None,
        weights: Mapping[str, tuple[Part, str]] | None = None,
        shapes: tuple[Shape, ...] | None = None,
        extra: Mapping[str, int] | None = None,
        rows: RowKind | None = None,
        **parameters: Parameter,
    ) -> RowsOf:
        """Append a call with one new buffer, and those in ``extra`` (widths by role).

        Args:
            node: Where it comes from; names the buffers.
            family: What to call.
            like: Rows and, but for the last axis, shapes of the result.
            width: Columns of the result.
            reads: Activations by role.
            weights: By role, each with a name for messages and listings.
            shapes: Shapes of the result where they are not those of ``like``.
            extra: Further results.
            rows: Rows of the result where they are not those of ``like``.
            parameters: Of the call.
        """
        name = self._fresh(node)
        if shapes is None:
            assert like is not None
            shapes = tuple((*shape[:-1], width) for shape in like.shapes)
        rows = rows or (like.rows if like is not None else RowKind.TOKENS)
        writes = {"y": self.add_buffer(name, rows, width)}
        for role, more in (extra or {}).items():
            writes[role] = self.add_buffer(f"{name}.{role}", rows, more)
        self.calls.append(
            Call(
                family,
                rows,
                {role: read.view for role, read in (reads or {}).items()},
                writes,
                {
                    role: self._weight(part, own, is_table=family is Family.EMBED)
                    for role, (part, own) in (weights or {}).items()
                },
                parameters,
                (node.name or f"{node.op_type} without a name",),
            )
        )
        return RowsOf(writes["y"], rows, shapes)

    def extra(self, result: RowsOf, role: str) -> RowsOf:
        """A further result of the call that made ``result``, as wide as that."""
        name = f"{result.view.buffer}.{role}"
        return RowsOf(View(name, 0, self.buffers[name].width), result.rows, result.shapes)

    def limit_positions(self, rows: int) -> None:
        """Note how many positions a rotary table has."""
        self.positions = rows if self.positions is None else min(rows, self.positions)

    def _fresh(self, node: ir.Node) -> str:
        base = node.outputs[0].name or node.op_type
        name, number = base, 0
        while name in self.buffers:
            number += 1
            name = f"{base}_{number}"
        return name

    def add_buffer(self, name: str, rows: RowKind, width: int) -> View:
        """Add a buffer of floats."""
        self.buffers[name] = Buffer(rows, width)
        return View(name, 0, width)

    def _weight(self, part: Part, name: str, *, is_table: bool) -> str:
        """The name of a weight; equal ones that are used alike have the same, so that they are packed once."""
        weight = Weight((part,))
        if (weight, is_table) not in self._weight_names:
            number, free = 0, name
            while free in self.weights:
                number += 1
                free = f"{name}_{number}"
            self._weight_names[weight, is_table] = free
            self.weights[free] = weight
        return self._weight_names[weight, is_table]


def constant_of(tensor: ir.TensorProtocol) -> Constant:
    """The meaning of an initializer."""
    if tensor.dtype is ir.DataType.STRING:
        raise DeclineError("strings are no activations")
    extent, array = extent_of(tensor), tensor.numpy()
    own = numpy_dtype(tensor.dtype)
    array = array if array.dtype == own else array.view(own)
    return stored_constant(array) if extent is None else Constant(
        array, Stored(array.dtype.name, array.shape, extent.location, extent.offset)
    )  # fmt: skip


def stored_constant(array: np.ndarray) -> Constant:
    """The meaning of an array that is in no file."""
    whole = np.ascontiguousarray(array)
    return Constant(array, Stored(whole.dtype.name, array.shape, inline=whole.tobytes()))


def attribute(node: ir.Node, name: str, default: object = None) -> object:
    """An attribute as Python has it."""
    found = node.attributes.get(name)
    return default if found is None else attribute_value(found)


def integer(node: ir.Node, name: str, default: int = 0) -> int:
    """An attribute that is an integer."""
    value = attribute(node, name, default)
    assert isinstance(value, int)
    return value


def real(node: ir.Node, name: str, default: float = 0.0) -> float:
    """An attribute that is a number."""
    value = attribute(node, name, default)
    assert isinstance(value, int | float)
    return float(value)


def rows(meaning: Meaning | None, what: str) -> RowsOf:
    """The meaning, which must be activations.

    Raises:
        DeclineError: It is something else.
    """
    if not isinstance(meaning, RowsOf):
        raise DeclineError(f"{what} is {describe(meaning)}, not activations")
    return meaning


def whole_rows(meaning: Meaning | None, what: str) -> RowsOf:
    """Activations whose last axis is all of a row.

    Raises:
        DeclineError: They are something else.
    """
    found = rows(meaning, what)
    if found.last != found.view.width:
        raise DeclineError(f"{what} has rows of {found.view.width} in pieces of {found.last}")
    return found


def vector(meaning: Meaning | None, what: str, size: int) -> Vector:
    """The meaning, which must be a constant row of floats of that size.

    Raises:
        DeclineError: It is something else.
    """
    constant = floats(meaning, what)
    if constant.array.size != size or constant.array.shape[-1:] != (size,):
        raise DeclineError(f"{what} has shape {constant.array.shape}, expected {size} elements")
    return Vector(constant.stored)


def floats(meaning: Meaning | None, what: str) -> Constant:
    """The meaning, which must be constant floats.

    Raises:
        DeclineError: It is something else.
    """
    if not isinstance(meaning, Constant):
        raise DeclineError(f"{what} is {describe(meaning)}, not a constant")
    if meaning.array.dtype not in FLOATS:
        raise DeclineError(
            f"{what} has elements of {meaning.array.dtype.name}, not float32, float16 or bfloat16"
        )
    return meaning


def matrix(meaning: Meaning | None, what: str, *, outputs_first: bool) -> FloatMatrix:
    """The meaning, which must be a constant matrix, with a row for each output (or a column).

    Raises:
        DeclineError: It is something else.
    """
    constant = floats(meaning, what)
    if constant.array.ndim != 2:
        raise DeclineError(f"{what} has shape {constant.array.shape}, which is no matrix")
    first, second = constant.array.shape
    outputs, inputs = (first, second) if outputs_first else (second, first)
    return FloatMatrix(outputs, inputs, constant.stored, transposed=outputs_first == constant.transposed)


def scalar(meaning: Meaning | None) -> float | None:
    """A constant number, or one that is the same for all lengths; None for anything else."""
    if isinstance(meaning, Constant) and meaning.array.size == 1:
        return float(meaning.array.reshape(-1)[0])
    if isinstance(meaning, Known) and all(v.size == 1 for v in meaning.values):
        found = {float(v.reshape(-1)[0]) for v in meaning.values}
        return found.pop() if len(found) == 1 else None
    return None


def describe(meaning: Meaning | None) -> str:
    """What a meaning is, for messages."""
    match meaning:
        case None:
            return "left out"
        case Constant():
            return f"a constant of {meaning.array.dtype.name}{list(meaning.array.shape)}"
        case Known():
            return "computed from lengths"
        case RowsOf():
            return f"activations of width {meaning.view.width}"
        case _:
            return {
                "TokenIds": "token ids",
                "CacheState": "a cache",
                "Switched": "a constant that lengths choose",
            }.get(type(meaning).__name__, "unknown")
