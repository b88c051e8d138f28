"""Comparisons, logic, bits and selection."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.arrays import Ufunc, ufunc_kernel
from onnxgen.graph.cpu.broadcasting import with_legacy_broadcast
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


_BINARY: dict[str, tuple[tuple[int, ...], tuple[int, ...], Ufunc]] = {
    # versions with NumPy's broadcasting, versions with the axis attribute
    "Equal": ((7, 11, 13, 19), (1,), np.equal),
    "Greater": ((7, 9, 13), (1,), np.greater),
    "Less": ((7, 9, 13), (1,), np.less),
    "GreaterOrEqual": ((12, 16), (), np.greater_equal),
    "LessOrEqual": ((12, 16), (), np.less_equal),
    "And": ((7,), (1,), np.logical_and),
    "Or": ((7,), (1,), np.logical_or),
    "Xor": ((7,), (1,), np.logical_xor),
    "BitwiseAnd": ((18,), (), np.bitwise_and),
    "BitwiseOr": ((18,), (), np.bitwise_or),
    "BitwiseXor": ((18,), (), np.bitwise_xor),
}


def _binary(op_type: str, versions: tuple[int, ...], with_axis: tuple[int, ...], ufunc: Ufunc) -> None:
    @TABLE.operator(op_type, *versions, name=op_type.lower())
    def newest(node: NodeSpec) -> Kernel:
        return ufunc_kernel(ufunc, num_inputs=2)

    @TABLE.operator(op_type, *with_axis, name=f"{op_type.lower()}/axis")
    def before_7(node: NodeSpec) -> Kernel:
        return with_legacy_broadcast(node, newest(node))


for _op_type, _entry in _BINARY.items():
    _binary(_op_type, *_entry)


@TABLE.operator("BitShift", 11, 28)
def bit_shift(node: NodeSpec) -> Kernel:
    """Shift as ``direction`` says; amounts below 0 or beyond the width shift everything out, as NumPy has it."""
    return ufunc_kernel(np.left_shift if node.attr("direction") == "LEFT" else np.right_shift, num_inputs=2)


@TABLE.operator("Where", 9, 16)
def where(node: NodeSpec) -> Kernel:
    """``x`` where the condition holds, else ``y``; all three broadcast."""

    def run(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(np.where(condition, x, y))

    def into(condition: np.ndarray, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> None:
        np.copyto(z, y)
        np.copyto(z, x, where=condition)

    return Kernel(run, into, in_place=((0, 2),))
