"""Products with constant matrices of floats for operators: kept in 16 bits where they come so, multiplied in float32."""

from __future__ import annotations

import numpy as np

from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.packed_floats import PackedFloats
from onnxgen.graph.cpu.parts_by_rows import PartsByRows
from onnxgen.graph.cpu.step.node_calls import NodeCalls

_OPERATIONS_PER_S, _BYTES_PER_S = 100e9, 20e9
"""Of one thread, roughly: to tell what is worth sharing."""

_ROWS = int(Header.TOKENS)


class FloatProducts:
    """Products with one packed matrix. May be used from several threads.

    Args:
        packed: The matrix.
        calls: Those of another matrix of the same element type, to be shared with it.
    """

    def __init__(self, packed: PackedFloats, calls: NodeCalls | None = None) -> None:
        own = packed.product_arguments()
        self.columns, self.depth = own["columns"], packed.depth
        self.packed, self.calls = packed, calls or NodeCalls(packed.product())
        self._parts, self._num_bytes = PartsByRows(packed), packed.num_bytes
        self._weights = own["weights"], own["depth"], own["panels"], own["columns"]

    def multiply(self, x: np.ndarray, y: np.ndarray, bias: np.ndarray | None = None) -> None:
        """``y = x @ matrix + bias``.

        Args:
            x: float32 ``[rows, depth]``, C-contiguous.
            y: float32 ``[rows, columns]``; rows may be apart.
            bias: float32 ``[columns]``, C-contiguous.
        """
        rows = len(x)
        arguments = (
            *(_ROWS, x.ctypes.data, self.depth, *self._weights, y.ctypes.data, y.strides[0] // 4),
            *(0 if bias is None else bias.ctypes.data, 0),
        )
        operations = 2 * x.size * self.columns
        self.calls.run(
            (arguments,),
            (self._parts(rows),),
            seconds=max(operations / _OPERATIONS_PER_S, self._num_bytes / _BYTES_PER_S),
            rows=rows,
        )
