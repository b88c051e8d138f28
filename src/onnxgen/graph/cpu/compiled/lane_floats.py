"""16 float32 as one value of compiled code, with Python's operators: what loops over rows are written in.

    x = load(address)                       16 neighbours
    y = silu(x) * load(other) + 1.0         numbers stand for all lanes
    store(address, y)

LLVM splits such a value over as many registers as the processor needs. `load_first` and `store_first` touch only the
first few of the 16, for the end of a row. Sums over lanes run in one fixed order on every processor.
"""

# pyright: reportUntypedFunctionDecorator=false, reportUntypedClassDecorator=false, reportUntypedBaseClass=false
# pyright: reportUnusedFunction=false, reportUnknownLambdaType=false
# Reason: numba's decorators and types are not typed; it finds the overloads by itself.

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.core.typing.templates import signature as typed
from numba.extending import intrinsic, lower_builtin, models, register_model

from onnxgen.graph.cpu.compiled import vector_math
from onnxgen.graph.cpu.compiled.vector_math import FLOATS, INTS, LANES, Vector

exact: Any = numba.njit(nogil=True, forceinline=True, error_model="numpy")
"""For small functions that kernels call; no freedom to reorder or to fuse what is written."""

_I1, _I32 = ir.IntType(1), ir.IntType(32)
_FLOAT_BYTES = 4


class LaneType(types.Type):
    """The type of 16 float32."""

    def __init__(self) -> None:
        super().__init__(name="float32x16")


lanes = LaneType()
"""The type of 16 float32."""


@register_model(LaneType)
class _LaneModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, FLOATS)


def in_all_lanes(builder: Any, value: Any) -> Any:
    """The vector of LLVM with that scalar in each of 16 lanes."""
    kind = ir.VectorType(value.type, LANES)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, _I32(0))
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), ir.Constant(INTS, [0] * LANES))


def place(builder: Any, address: Any, kind: Any) -> Any:
    """A pointer of LLVM to that type at an address."""
    return builder.inttoptr(address, kind.as_pointer())


def _as_lanes(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if kind == lanes:
        return value
    return in_all_lanes(builder, context.cast(builder, value, kind, types.float32))


def of_lanes(emit: Callable[..., Any], arity: int) -> Any:
    """An intrinsic from lanes, or numbers that stand for all of them, to lanes.

    Args:
        emit: From a builder and as many ``<16 x float>`` to another.
        arity: How many: 1 to 3.
    """

    def of(*kinds: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            values = [
                _as_lanes(context, builder, kind, value)
                for kind, value in zip(signature.args, arguments, strict=True)
            ]
            return emit(builder, *values)

        return lanes(*kinds), generate

    if arity == 1:
        return intrinsic(lambda _context, x: of(x))
    if arity == 2:
        return intrinsic(lambda _context, x, y: of(x, y))
    return intrinsic(lambda _context, x, y, z: of(x, y, z))


def _operator(function: Any, emit: Callable[..., Any]) -> None:
    """Let a Python operator of lanes, or of lanes and a number, be these instructions."""
    numbers = (types.float32, types.float64)
    pairs = [
        (lanes, lanes),
        *((lanes, number) for number in numbers),
        *((number, lanes) for number in numbers),
    ]

    class Typed(ConcreteTemplate):
        cases = [typed(lanes, *pair) for pair in pairs]  # noqa: RUF012 - Numba reads it so

    infer_global(function)(Typed)  # pyright: ignore[reportOptionalCall]
    for pair in pairs:

        @lower_builtin(function, *pair)
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds = zip(signature.args, arguments, strict=True)
            return emit(builder, *(_as_lanes(context, builder, kind, value) for kind, value in kinds))


def _sum(builder: Any, x: Any, y: Any) -> Any:
    return builder.fadd(x, y)


def _difference(builder: Any, x: Any, y: Any) -> Any:
    return builder.fsub(x, y)


def _product(builder: Any, x: Any, y: Any) -> Any:
    return builder.fmul(x, y)


def _quotient(builder: Any, x: Any, y: Any) -> Any:
    return builder.fdiv(x, y)


def _larger(builder: Any, x: Any, y: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


def _at_least(builder: Any, x: Any, low: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", x, low), low, x)


def _nan_or(builder: Any, x: Any, y: Any) -> Any:
    return builder.select(builder.fcmp_unordered("uno", x, x), x, y)


def _if_from(builder: Any, x: Any, low: Any, value: Any) -> Any:
    reaches = builder.fcmp_ordered(">=", x, low)
    return builder.select(reaches, value, ir.Constant(FLOATS, [0.0] * LANES))


def _multiply_add(builder: Any, *factors_and_addend: Any) -> Any:
    x, y, z = (Vector(builder, value) for value in factors_and_addend)
    return x.times_plus(y, z).value


def _magnitude(builder: Any, x: Any) -> Any:
    return Vector(builder, x).call("fabs").value


def _same(_builder: Any, x: Any) -> Any:
    return x


_operator(operator.add, _sum)
_operator(operator.iadd, _sum)
_operator(operator.sub, _difference)
_operator(operator.mul, _product)
_operator(operator.truediv, _quotient)

splat = of_lanes(_same, 1)
"""A number in all lanes."""
larger = of_lanes(_larger, 2)
"""``x`` where it is larger than ``y``, else ``y``: a NaN in ``x`` is passed over."""
at_least = of_lanes(_at_least, 2)
"""``x``, or ``low`` where ``x`` is less; NaN stays."""
if_from = of_lanes(_if_from, 3)
"""``if_from(x, low, value)``: ``value`` where ``x`` is at least ``low``, else 0."""
nan_or = of_lanes(_nan_or, 2)
"""``x`` where it is NaN, else ``y``."""
fma = of_lanes(_multiply_add, 3)
"""``x * y + z``, rounded once where the processor can."""
magnitude = of_lanes(_magnitude, 1)
"""Without the sign."""
exp = of_lanes(vector_math.exp, 1)
exp_of_negative = of_lanes(vector_math.exp_of_negative, 1)
log = of_lanes(vector_math.log, 1)
sigmoid = of_lanes(vector_math.sigmoid, 1)
silu = of_lanes(vector_math.silu, 1)
quick_gelu = of_lanes(vector_math.silu, 2)
"""``x * sigmoid(alpha * x)``."""
tanh = of_lanes(vector_math.tanh, 1)
gelu = of_lanes(vector_math.gelu, 1)
gelu_tanh = of_lanes(vector_math.gelu_tanh, 1)
inverse_root = of_lanes(vector_math.inverse_root, 1)


def _load(_context: Any, address: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.load(place(builder, arguments[0], FLOATS), align=_FLOAT_BYTES)

    return lanes(types.intp), generate


load: Any = intrinsic(_load)
"""The 16 float32 at an address."""


def _store(_context: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = _as_lanes(context, builder, signature.args[1], arguments[1])
        builder.store(value, place(builder, arguments[0], FLOATS), align=_FLOAT_BYTES)
        return context.get_dummy_value()

    return types.void(types.intp, value), generate


store: Any = intrinsic(_store)
"""Write 16 float32 to an address."""

MASK = ir.VectorType(_I1, LANES)


def first_lanes(builder: Any, count: Any) -> Any:
    """The mask of the lanes below a count, an int64."""
    limit = in_all_lanes(builder, builder.trunc(count, _I32))
    return builder.icmp_signed("<", ir.Constant(INTS, list(range(LANES))), limit)


def _load_first(_context: Any, address: Any, count: Any, rest: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        address, count, rest = arguments
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(FLOATS, [FLOATS.as_pointer(), _I32, MASK, FLOATS]),
            f"llvm.masked.load.v{LANES}f32.p0",
        )
        source = place(builder, address, FLOATS)
        wanted, others = first_lanes(builder, count), in_all_lanes(builder, rest)
        return builder.call(function, [source, _I32(_FLOAT_BYTES), wanted, others])

    return lanes(types.intp, types.intp, types.float32), generate


load_first: Any = intrinsic(_load_first)
"""``load_first(address, count, rest)``: the float32 there as far as ``count`` (16 or more: all), then ``rest``."""


def _store_first(_context: Any, address: Any, count: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
        address, count, value = arguments
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [FLOATS, FLOATS.as_pointer(), _I32, MASK]),
            f"llvm.masked.store.v{LANES}f32.p0",
        )
        target = place(builder, address, FLOATS)
        builder.call(function, [value, target, _I32(_FLOAT_BYTES), first_lanes(builder, count)])
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, lanes), generate


store_first: Any = intrinsic(_store_first)
"""``store_first(address, count, value)``: write the first ``count`` lanes (16 or more: all)."""


def _folded(combine: Callable[..., Any]) -> Any:
    """Halves are combined with halves: 16, 8, 4, 2, 1."""

    def of_all(_context: Any, value: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            (value,) = arguments
            width = LANES
            while width > 1:
                width //= 2
                low, high = (
                    builder.shuffle_vector(
                        value,
                        ir.Constant(value.type, ir.Undefined),
                        ir.Constant(ir.VectorType(_I32, width), list(range(first, first + width))),
                    )
                    for first in (0, width)
                )
                value = combine(builder, low, high)
            return builder.extract_element(value, _I32(0))

        return types.float32(lanes), generate

    return intrinsic(of_all)


sum_of: Any = _folded(_sum)
"""The sum of all lanes."""
largest_of: Any = _folded(_larger)
"""The largest lane; NaN only where it is the last to be compared."""
