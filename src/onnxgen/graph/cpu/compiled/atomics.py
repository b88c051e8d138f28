"""Memory that several threads read and write: each access whole, and seen in one order by all."""

from __future__ import annotations

import platform
import sys
import time
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from onnxgen.foundations.cpu_facts import normal_architecture
from onnxgen.graph.cpu.compiled.primitives import I32, I64

_ORDER = "seq_cst"


def _load(_context: Any, address: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(arguments[0], I64.as_pointer()), _ORDER, 8)

    return types.intp(types.intp), generate


atomic_load: Any = intrinsic(_load)
"""``atomic_load(address)``: the int64 there."""


def _store(_context: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], I64.as_pointer())
        builder.store_atomic(arguments[1], place, _ORDER, 8)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


atomic_store: Any = intrinsic(_store)
"""``atomic_store(address, value)``: an int64."""


def _read_modify_write(operation: str) -> Any:
    def change(_context: Any, address: Any, value: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            place = builder.inttoptr(arguments[0], I64.as_pointer())
            return builder.atomic_rmw(operation, place, arguments[1], _ORDER)

        return types.intp(types.intp, types.intp), generate

    return intrinsic(change)


atomic_add: Any = _read_modify_write("add")
"""``atomic_add(address, value)``: the old int64 there, which becomes the sum."""

atomic_exchange: Any = _read_modify_write("xchg")
"""``atomic_exchange(address, value)``: the old int64 there, which becomes the value."""


def _pause(_context: Any) -> Any:
    def generate(context: Any, builder: Any, __: Any, ___: Any) -> Any:
        nothing, machine = ir.VoidType(), normal_architecture(platform.machine())
        if machine == "x86_64":
            hint = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(nothing, []), "llvm.x86.sse2.pause"
            )
            builder.call(hint, [])
        elif machine == "arm64":
            hint = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(nothing, [I32]), "llvm.aarch64.hint"
            )
            builder.call(hint, [I32(1)])
        return context.get_dummy_value()

    return types.void(), generate


pause: Any = intrinsic(_pause)
"""``pause()``: says that this core waits in a loop."""


def _call_kernel(_context: Any, code: Any, row: Any, step: Any, scratch: Any, part: Any, parts: Any) -> Any:
    def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        entry = ir.FunctionType(I32, [pointer, pointer, *[I64] * 5]).as_pointer()
        nothing = ir.Constant(pointer, None)
        # Numba's entries write their result and error through the first two; a kernel has neither.
        result = builder.bitcast(cgutils.alloca_once(builder, I64), pointer)
        builder.call(builder.inttoptr(arguments[0], entry), [result, nothing, *arguments[1:]])
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), generate


call_kernel: Any = intrinsic(_call_kernel)
"""``call_kernel(code, row, step, scratch, part, parts)``: the machine code of a step kernel at an address."""


def _call_plain(_context: Any, code: Any, handle: Any, amount: Any) -> Any:
    def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
        entry = ir.FunctionType(I32, [I64, I64, I64]).as_pointer()
        builder.call(builder.inttoptr(arguments[0], entry), [arguments[1], arguments[2], I64(0)])
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), generate


call_plain: Any = intrinsic(_call_plain)
"""``call_plain(code, handle, amount)``: a C function at an address, of up to three arguments, the third 0; it ignores others."""


def _ticks(_context: Any, clock: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = cgutils.alloca_once(builder, I64, size=2)
        if sys.platform == "win32":
            entry = ir.FunctionType(I32, [I64.as_pointer()]).as_pointer()
            builder.call(builder.inttoptr(arguments[0], entry), [place])
            return builder.load(place)
        entry = ir.FunctionType(I32, [I32, I64.as_pointer()]).as_pointer()
        builder.call(builder.inttoptr(arguments[0], entry), [I32(time.CLOCK_MONOTONIC), place])
        seconds, rest = builder.load(place), builder.load(builder.gep(place, [I32(1)]))
        return builder.add(builder.mul(seconds, I64(1_000_000_000)), rest)

    return types.intp(types.intp), generate


ticks: Any = intrinsic(_ticks)
"""``ticks(clock)``: the time, in units of `onnxgen.graph.cpu.step.system_calls`, by the function at an address."""
