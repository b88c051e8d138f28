"""Sixteen float32 from where they are kept in 16 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled.lane_floats import MASK, exact, first_lanes, lanes, load, load_first, place
from onnxgen.graph.cpu.compiled.vector_math import FLOATS, INTS, LANES
from onnxgen.graph.cpu.compiled.vectors import from_half
from onnxgen.graph.cpu.isa import Isa

_I32 = ir.IntType(32)
_HALVES = ir.VectorType(ir.IntType(16), LANES)

ELEMENT_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of each type of elements that weights are kept in."""


def widened(builder: Any, isa: Isa, elements: str, bits: Any) -> Any:
    """The ``<16 x float>`` of 16 float16 or bfloat16 given by their bits; exact."""
    if elements == "float16":
        return from_half(builder, isa, bits)
    wide = builder.zext(bits, INTS)
    return builder.bitcast(builder.shl(wide, ir.Constant(INTS, [16] * LANES)), FLOATS)


def reader(elements: str, isa: Isa) -> tuple[Any, Any, int]:
    """How elements of a type are read as lanes.

    Returns:
        ``read(address)``, ``read_first(address, count)`` with zeros in the other lanes, and the bytes of an element.
    """
    if elements == "float32":

        @exact
        def first_floats(address: int, count: int) -> Any:
            return load_first(address, count, np.float32(0))

        return load, first_floats, 4

    def read(_context: Any, address: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            bits = builder.load(place(builder, arguments[0], _HALVES), align=2)
            return widened(builder, isa, elements, bits)

        return lanes(types.intp), generate

    def read_first(_context: Any, address: Any, count: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            address, count = arguments
            function = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(_HALVES, [_HALVES.as_pointer(), _I32, MASK, _HALVES]),
                f"llvm.masked.load.v{LANES}i16.p0",
            )
            source, nothing = place(builder, address, _HALVES), ir.Constant(_HALVES, [0] * LANES)
            bits = builder.call(function, [source, _I32(2), first_lanes(builder, count), nothing])
            return widened(builder, isa, elements, bits)

        return lanes(types.intp, types.intp), generate

    return intrinsic(read), intrinsic(read_first), 2
