"""Products with matrices of 2, 4 and 8 bits for operators: activations are quantized row by row, then multiplied in tiles.

A row's result is that row's own: it does not depend on the others, nor on threads.
"""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.packed_blocks import PackedBlocks
from onnxgen.graph.cpu.parts_by_rows import PartsByRows
from onnxgen.graph.cpu.row_kernels import parts_of_elements, quantize_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls, workspace

_OPERATIONS_PER_S, _BYTES_PER_S, _FLOATS_PER_S = 200e9, 20e9, 2e9
"""Of one thread, roughly: to tell what is worth sharing."""

_INT8_LEVEL = 4
"""The accuracy level of MatMulNBits from which on activations may be int8."""

_ROWS = int(Header.TOKENS)


def needs_words(accuracy_level: int) -> bool:
    """Whether activations have to be int16 (an error about 1e-5 of a block's largest) rather than int8."""
    return accuracy_level < _INT8_LEVEL


class BlockProducts:
    """Products with one packed matrix. May be used from several threads.

    Args:
        packed: The matrix.
        calls: Those of another matrix of the same format, to be shared with it.
    """

    def __init__(self, packed: PackedBlocks, calls: NodeCalls | None = None) -> None:
        form, own = packed.form, packed.product_arguments()
        self.packed, self.columns, self.depth = packed, own["columns"], packed.depth
        integers = "int16" if form.words else "int8"
        self.calls = calls or NodeCalls(quantize_kernel(integers, form.group), packed.product())
        self._groups, self._element_bytes = packed.groups, 2 if form.words else 1
        self._padded = packed.groups * form.group
        self._parts, self._num_bytes = PartsByRows(packed), packed.num_bytes
        self._weights = own["weights"], own["groups"], own["panels"], own["columns"]

    def multiply(self, x: np.ndarray, y: np.ndarray, bias: np.ndarray | None = None) -> None:
        """``y = x @ matrix + bias``.

        Args:
            x: float32 ``[rows, depth]``, C-contiguous.
            y: float32 ``[rows, columns]``; rows may be apart.
            bias: float32 ``[columns]``, C-contiguous.
        """
        rows, depth = x.shape
        if not rows:
            return
        groups, padded = self._groups, self._padded
        q, scale, total = workspace().addresses(
            rows * padded * self._element_bytes, 4 * rows * groups, 4 * rows * groups
        )
        quantized = (_ROWS, depth, x.ctypes.data, depth, q, padded, scale, groups, total)
        product = (
            *(_ROWS, q, scale, total, padded * self._element_bytes, 4 * groups, *self._weights),
            *(y.ctypes.data, y.strides[0], 0 if bias is None else bias.ctypes.data, 0),
        )
        operations = 2 * rows * depth * self.columns * self._element_bytes
        self.calls.run(
            (quantized, product),
            (parts_of_elements(rows, depth), self._parts(rows)),
            seconds=max(operations / _OPERATIONS_PER_S, self._num_bytes / _BYTES_PER_S)
            + x.size / _FLOATS_PER_S,
            rows=rows,
        )
