"""Step kernels: functions over raw addresses, compiled to machine code that needs neither Python nor Numba.

A step kernel is ``kernel(row, step, scratch, part, parts)``, five integers:

    row      address of this call's arguments, int64 words: ``word(row, i)``, ``float_word(row, i)``
    step     address of the step's header (`onnxgen.graph.cpu.compiled.header`)
    scratch  memory of the thread that runs it, 64-byte aligned, for nothing but this call
    part     which part of the work to do, of ``parts``; what comes out never depends on either

It allocates nothing, raises nothing and calls nothing outside: memory is seen through views such as ``floats(address, n)``.
The Python side of a kernel names it as ``module:factory`` with parameters (`onnxgen.graph.cpu.step.kernel`), so that a process
that finds the code on disk imports nothing from here.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import registry
from numba.core.compiler import Flags, compile_extra
from numba.core.cpu_options import FastMathOptions
from numba.extending import intrinsic
from numba.np import arrayobj

from onnxgen.graph.cpu.compiled.function import CONTRACTED
from onnxgen.graph.cpu.compiled.primitives import I64
from onnxgen.graph.cpu.isa import host_isa


def _view(element: Any, doc: str) -> Any:
    array = types.Array(element, 1, "C")

    def view(_context: Any, address: Any, size: Any) -> Any:
        def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
            made: Any = arrayobj.make_array(array)(context, builder)  # pyright: ignore[reportCallIssue]
            item = I64(context.get_abi_sizeof(context.get_data_type(element)))
            arrayobj.populate_array(
                made,
                data=builder.inttoptr(arguments[0], made.data.type),
                shape=[arguments[1]],
                strides=[item],
                itemsize=item,
                meminfo=None,
            )
            return made._getvalue()

        return array(types.intp, types.intp), generate

    view.__doc__ = doc
    return intrinsic(view)


floats: Any = _view(types.float32, "``floats(address, size)``: a view of float32.")
doubles: Any = _view(types.float64, "A view of float64.")
ints8: Any = _view(types.int8, "A view of int8.")
bytes8: Any = _view(types.uint8, "A view of uint8.")
ints16: Any = _view(types.int16, "A view of int16.")
words16: Any = _view(types.uint16, "A view of uint16, such as the bits of float16 and bfloat16.")
ints32: Any = _view(types.int32, "A view of int32.")
ints64: Any = _view(types.int64, "A view of int64.")


def _word(_context: Any, address: Any, index: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = builder.add(arguments[0], builder.mul(arguments[1], I64(8)))
        return builder.load(builder.inttoptr(place, I64.as_pointer()), align=8)

    return types.intp(types.intp, types.intp), generate


word: Any = intrinsic(_word)
"""``word(address, index)``: the int64 there."""


def _float_word(_context: Any, address: Any, index: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = builder.add(arguments[0], builder.mul(arguments[1], I64(8)))
        return builder.load(builder.inttoptr(place, ir.FloatType().as_pointer()), align=8)

    return types.float32(types.intp, types.intp), generate


float_word: Any = intrinsic(_float_word)
"""``float_word(address, index)``: the float32 in the low half of the word there."""


def object_code(
    function: Callable[..., Any], *, gives_value: bool = False, fastmath: frozenset[str] = CONTRACTED
) -> tuple[bytes, str]:
    """Machine code of a function of five integers, as a relocatable object file, and the symbol of its entry.

    The entry has Numba's convention: ``int32 entry(void *result, void *error, int64 ...)``.
    """
    target: Any = registry.cpu_target
    target.typing_context.refresh()
    target.target_context.refresh()
    flags: Any = Flags()
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    flags.fastmath = FastMathOptions(set(fastmath))
    made: Any = compile_extra(
        target.typing_context,
        target.target_context,
        function,
        (types.intp,) * 5,
        types.intp if gives_value else types.void,
        flags,
        {},
    )
    library = made.library
    return _target_machine().emit_object(library._final_module), made.fndesc.llvm_func_name


@cache
def _target_machine() -> Any:
    """The processor to compile for, with code that reaches what is its own by distances: short, and bound to no address."""
    target: Any = registry.cpu_target
    codegen = target.target_context.codegen()
    # An instruction set that was asked for leaves out what the host has above it.
    asked = host_isa().llvm_cpu
    return binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
        cpu=asked or codegen._get_host_cpu_name(),
        features="" if asked else codegen._tm_features,
        opt=3,
        reloc="pic",
        codemodel="small",
    )
