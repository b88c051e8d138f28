"""Kernels that do nothing but the two instructions that products consist of, as fast as the processor can.

Independent sums take turns, so that none waits for its own last result; operands come from the first cache.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled.kernel import ints64, word
from onnxgen.graph.cpu.compiled.vectors import (
    BYTES,
    FLOATS,
    I32,
    I64,
    INTS,
    VECTOR_BYTES,
    dot_bytes,
    every,
    fma,
    load,
    store,
)
from onnxgen.graph.cpu.isa import Isa

SUMS = 12
"""Twice the latency of these instructions, in cycles, and few enough for registers."""

_OPERANDS = 8
"""Vectors in memory that the sums take turns with: more than one, or the products would be made only once."""


def peak(*, integers: bool, isa: Isa) -> Callable[[int, int, int, int, int], None]:
    """Words: ``rounds`` of `SUMS` instructions on 16 lanes; ``results``, an int64 for each part.

    A sum begins with its number and grows by 12 in each turn (bytes), or by 0.5 (float32); the result is the total of all.
    """
    rounds_of = _integer_rounds(isa) if integers else _float_rounds(isa)

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        ints64(word(row, 2), parts)[part] = rounds_of(scratch, word(row, 1))

    return kernel


def num_sums(isa: Isa) -> int:
    """Independent sums: half as many where 16 lanes are several registers."""
    return SUMS if isa in (Isa.AVX512_VNNI, Isa.AVX512) else SUMS // 2


def _integer_rounds(isa: Isa) -> Any:
    def add(b: Any, total: Any, operand: Any) -> Any:
        return dot_bytes(b, isa, total, every(BYTES, 3), operand, largest=15)

    def whole(b: Any, value: Any) -> Any:
        return b.sext(value, I64)

    return _rounds(INTS, BYTES, num_sums(isa), add, whole)


def _float_rounds(isa: Isa) -> Any:
    def add(b: Any, total: Any, operand: Any) -> Any:
        return fma(b, isa, operand, every(FLOATS, 0.5), total)

    def whole(b: Any, value: Any) -> Any:
        return b.fptosi(value, I64)

    return _rounds(FLOATS, FLOATS, num_sums(isa), add, whole)


def _rounds(
    kind: Any, operand_kind: Any, sums: int, add: Callable[..., Any], whole: Callable[..., Any]
) -> Any:
    """``rounds(scratch, count)``: does them, and returns the total of all lanes of all sums."""

    def typed(_context: Any, scratch: Any, count: Any) -> Any:
        def generate(_: Any, b: Any, __: Any, arguments: Any) -> Any:
            scratch, count = arguments
            for i in range(_OPERANDS):
                store(b, every(operand_kind, 1), b.add(scratch, I64(i * VECTOR_BYTES)))
            places = [cgutils.alloca_once_value(b, every(kind, i)) for i in range(sums)]
            with cgutils.for_range(b, b.udiv(b.mul(count, I64(SUMS)), I64(sums))) as loop:
                place = b.mul(b.and_(loop.index, I64(_OPERANDS - 1)), I64(VECTOR_BYTES))
                operand = load(b, b.add(scratch, place), operand_kind)
                for each in places:
                    b.store(add(b, b.load(each), operand), each)
            total = I64(0)
            for each in places:
                for lane in range(kind.count):
                    total = b.add(total, whole(b, b.extract_element(b.load(each), I32(lane))))
            return total

        return types.intp(types.intp, types.intp), generate

    return intrinsic(typed)
