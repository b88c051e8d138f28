"""Shapes that follow from the shapes of a program's inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.ir.types import Shape, TensorType, numpy_dtype
from onnxgen.graph.planner.program import Program
from onnxgen.graph.shapes.expressions import compile_sizes, size_source

ActualShape = tuple[int, ...]


class ShapePredictor:
    """Says the shape of every value whose inferred shape uses no symbols but those of the inputs.

    A dimension of an input is a symbol as a whole, whatever its text: in a graph inside another one it is often an
    expression of symbols that only the outer graph knows.

    Args:
        program: Its value types are what inference found.
        untrusted: Values whose types are only a claim of the file. What depends on them is not predicted.
    """

    def __init__(self, program: Program, *, untrusted: Collection[int] = ()) -> None:
        self._program = program
        self._inputs = [_shape(program, value) for value in program.inputs]
        self._symbols = list(
            dict.fromkeys(d for dims in self._inputs for d in dims or () if isinstance(d, str))
        )
        names = dict(zip(self._symbols, self._symbols, strict=True))
        taken = _depending_on(program, untrusted)
        self.dims_by_value: dict[int, Shape] = {
            value: dims
            for call in program.calls
            for value in call.outputs
            if value not in taken
            and (dims := _shape(program, value)) is not None
            and _computable(dims, names)
        }
        flat = [d for dims in self.dims_by_value.values() for d in dims if d is not None]
        self._sizes = compile_sizes(flat, self._symbols)
        expressions = [d for d in self._symbols if _computable((d,), {n: n for n in self._symbols if n != d})]
        others = [compile_sizes([d], [n for n in self._symbols if n != d]) for d in expressions]
        self._expressions = list(zip(expressions, others, strict=True))

    def predict(self, shapes: Sequence[ActualShape]) -> Mapping[int, ActualShape] | None:
        """Shapes of values, given the shapes of all inputs; None when those contradict the inputs' types."""
        sizes: dict[str, int] = {}
        for dims, actual in zip(self._inputs, shapes, strict=True):
            if dims is None:
                continue
            if len(dims) != len(actual):
                return None
            for dim, size in zip(dims, actual, strict=True):
                if dim is not None and (size if isinstance(dim, int) else sizes.setdefault(dim, size)) != (
                    dim if isinstance(dim, int) else size
                ):
                    return None
        return self.predict_from(sizes)

    def predict_from(self, sizes: Mapping[str, int]) -> Mapping[int, ActualShape] | None:
        """The same, given the size of each symbol; missing ones are unknown and make the answer None."""
        if any(name not in sizes for name in self._symbols):
            return None
        for name, compute in self._expressions:
            others = [sizes[other] for other in self._symbols if other != name]
            try:
                if compute(*others) != (sizes[name],):
                    return None
            except ZeroDivisionError:
                return None
        try:
            flat = iter(self._sizes(*(sizes[name] for name in self._symbols)))
        except ZeroDivisionError:
            return None
        return {value: tuple(next(flat) for _ in dims) for value, dims in self.dims_by_value.items()}

    def dtype(self, value: int) -> np.dtype | None:
        """The inferred element type of a tensor that arenas can hold; None where that is not known."""
        kind = self._program.values[value].type
        if not isinstance(kind, TensorType) or kind.dtype in (ir.DataType.UNDEFINED, ir.DataType.STRING):
            return None
        return numpy_dtype(kind.dtype)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols of the inputs."""
        return tuple(self._symbols)


def _shape(program: Program, value: int) -> Shape | None:
    kind = program.values[value].type
    return kind.shape if isinstance(kind, TensorType) else None


def _computable(dims: Shape, names: Mapping[str, str]) -> bool:
    try:
        return all(dim is not None and bool(size_source(dim, names)) for dim in dims)
    except InvalidGraphError:
        return False


def _depending_on(program: Program, values: Collection[int]) -> set[int]:
    found = set(values)
    for call in program.calls:
        if not found.isdisjoint(value for value in call.inputs if value is not None):
            found.update(call.outputs)
    return found
