"""Sixteen float32 side by side, as a value that compiled loops can hold: one register, two or four, as the processor has them.

    total = fma(load(x), load(y), total)      store(z, total * splat(factor))

Arithmetic is that of Python's operators. All memory is named by its address, at any alignment. Results are the same bits
on every processor with multiply-adds.
"""

# pyright: reportUntypedFunctionDecorator=false, reportUntypedBaseClass=false, reportUntypedClassDecorator=false
# Reason: numba is not typed.

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from onnxgen.graph.cpu.compiled.primitives import I32

LANES = 16
"""Elements of a `Lanes`."""

_FLOAT = ir.FloatType()
_BYTE = ir.IntType(8)
_VECTOR, _INTEGERS = ir.VectorType(_FLOAT, LANES), ir.VectorType(I32, LANES)

Emit = Callable[..., Any]


class LanesType(types.Type):
    """Numba's type of the sixteen."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


lanes_type = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _arithmetic(function: Any, instruction: str) -> None:
    infer_global(function)(
        type(instruction, (ConcreteTemplate,), {"cases": [signature(lanes_type, lanes_type, lanes_type)]})
    )

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments)

    lower_builtin(function, lanes_type, lanes_type)(generate)


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")
_arithmetic(operator.truediv, "fdiv")


def _operation(result: Any, *arguments: Any) -> Callable[[Emit], Any]:
    """An intrinsic of these types whose instructions the decorated ``f(builder, *values)`` emits."""
    spelled = {
        0: lambda _c: 0,
        1: lambda _c, a: (a,),
        2: lambda _c, a, b: (a, b),
        3: lambda _c, a, b, c: (a, b, c),
    }

    def decorate(emit: Emit) -> Any:
        def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
            given = emit(builder, *values)
            return context.get_dummy_value() if result is types.void else given

        typed = {
            0: lambda _context: (result(), generate),
            1: lambda _context, a: (result(*arguments), generate),
            2: lambda _context, a, b: (result(*arguments), generate),
            3: lambda _context, a, b, c: (result(*arguments), generate),
        }[len(arguments)]
        typed.__name__ = emit.__name__
        return intrinsic(typed)

    del spelled
    return decorate
