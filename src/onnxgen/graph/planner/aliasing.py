"""Which values may be the same memory."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from onnxgen.graph.ir.types import TensorType
from onnxgen.graph.planner.program import Call, Program


def origins(program: Program, *, written: Collection[int] = ()) -> list[frozenset[int]]:
    """For each value the values whose memory it may be or hold: itself where its memory is its own.

    Containers hold their elements rather than copies, so what goes into or comes out of one is counted as the
    same memory, too. Calls in ``written`` write into memory that they are given: their outputs are nothing's view.
    """
    found = [frozenset((value,)) for value in range(len(program.values))]
    for number, call in enumerate(program.calls):
        if number in written:
            continue
        for index, output in enumerate(call.outputs):
            sources = [found[value] for value in aliased_inputs(program, call, index)]
            if sources:
                found[output] = frozenset((output,)).union(*sources)
    return found


def aliased_inputs(program: Program, call: Call, output: int) -> list[int]:
    """Inputs of a call that one of its outputs may be a view of, or may hold."""
    given = [value for value in call.inputs if value is not None]
    shared = [call.inputs[i] for o, i in call.kernel.may_alias if o == output and i < len(call.inputs)]
    holds = not _is_tensor(program, call.outputs[output])
    return [
        value for value in given
        if value in shared or holds or not _is_tensor(program, value)
    ]  # fmt: skip


def _is_tensor(program: Program, value: int) -> bool:
    kind = program.values[value].type
    return isinstance(kind, TensorType) and kind.dtype is not ir.DataType.UNDEFINED
