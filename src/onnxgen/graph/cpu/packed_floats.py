"""Matrices of float32, float16 and bfloat16 as the kernels of a step read them: packed once, when a model is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from onnxgen.errors import KernelError
from onnxgen.foundations.cpuinfo import default_threads
from onnxgen.graph.cpu.aligned_memory import aligned
from onnxgen.graph.cpu.compiled.float_layout import PANEL_COLUMNS, parts_of_product
from onnxgen.graph.cpu.isa import host_isa
from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel
from onnxgen.graph.cpu.step.running import run_kernel

_LANES = 16
_PACK = ("source", "column_step", "depth_step", "depth", "columns", "panels", "first_tile", "tile_step")
_PRODUCT = (
    *("rows_word", "x", "x_stride", "weights", "depth", "panels", "columns"),
    *("y", "y_stride", "bias", "further"),
)
_PARTS_OF_PACKING = 256


@dataclass(frozen=True, slots=True)
class PackedFloats:
    """A packed matrix; `onnxgen.graph.cpu.compiled.float_layout` draws it.

    Attributes:
        data: uint8, all panels.
        dtype: float32, float16 or bfloat16: its elements.
        depth: K.
        columns: N, of all matrices that were joined.
        interleaved: Whether two matrices take turns, tile by tile.
    """

    data: np.ndarray
    dtype: np.dtype
    depth: int
    columns: int
    interleaved: bool = False

    @property
    def panel_bytes(self) -> int:
        """Bytes of a panel."""
        return self.depth * PANEL_COLUMNS * self.dtype.itemsize

    @property
    def panels(self) -> int:
        """Panels of 64 columns, the last one filled up with zeros."""
        return self.data.size // self.panel_bytes

    @property
    def num_bytes(self) -> int:
        """Bytes that a product of one row reads."""
        return self.data.size

    def parts(self, rows: int) -> int:
        """Parts of a product with so many rows."""
        return parts_of_product(rows, self.panels, self.panel_bytes)

    def product(self, gate: str | None = None) -> StepKernel:
        """The kernel that multiplies by it; `product_arguments` gives what is its own among the arguments.

        Args:
            gate: One of `compiled.blocks.endings.GATES`, where a gate and what it gates are interleaved.
        """
        return step_kernel(
            "float_products:float_product", _PRODUCT, elements=self.dtype.name, gate=gate, isa=host_isa()
        )

    def product_arguments(self) -> dict[str, int]:
        """``weights``, ``depth``, ``panels`` and ``columns`` (of the result) of a product."""
        return {
            "weights": self.data.ctypes.data,
            "depth": self.depth,
            "panels": self.panels,
            "columns": self.columns // 2 if self.interleaved else self.columns,
        }


def pack(
    matrices: Sequence[np.ndarray],
    *,
    transposed: bool = False,
    interleave: bool = False,
    threads: int | None = None,
    allocate: Callable[[int], np.ndarray] = aligned,
) -> PackedFloats:
    """Pack matrices of one depth and type.

    Args:
        matrices: float32, float16 or bfloat16 ``[columns, depth]``, joined side by side, such as query, key and value.
        transposed: They are ``[depth, columns]`` instead.
        interleave: The two matrices are a gate and what it gates.
        threads: How many pack it; None takes all cores.
        allocate: Gives memory for the packed matrix: zeros, uint8; `Arena.allocate` where there are many.

    Raises:
        KernelError: The matrices do not fit together, or are of another type.
    """
    by_column = [matrix.T if transposed else matrix for matrix in matrices]
    first = by_column[0]
    _check(by_column, interleave)
    if not interleave and any(len(matrix) % _LANES for matrix in by_column[:-1]):
        by_column = [np.concatenate(by_column)]
    tiles = [-(-len(matrix) // _LANES) for matrix in by_column]
    depth, dtype = first.shape[1], first.dtype
    panels = -(-sum(tiles) * _LANES // PANEL_COLUMNS)
    data = allocate(panels * depth * PANEL_COLUMNS * dtype.itemsize)
    kernel = step_kernel("float_products:pack_floats", _PACK, element_bytes=dtype.itemsize)
    for index, matrix in enumerate(by_column):
        column_step, depth_step = (stride // dtype.itemsize for stride in matrix.strides)
        run_kernel(
            kernel,
            parts=min(tiles[index], _PARTS_OF_PACKING),
            threads=threads or default_threads(),
            source=matrix.ctypes.data,
            column_step=column_step,
            depth_step=depth_step,
            depth=depth,
            columns=len(matrix),
            panels=data.ctypes.data,
            first_tile=index if interleave else sum(tiles[:index]),
            tile_step=2 if interleave else 1,
        )
    return PackedFloats(data, dtype, depth, sum(map(len, by_column)), interleave)


_DTYPES = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def _check(by_column: Sequence[np.ndarray], interleave: bool) -> None:
    first = by_column[0]
    for matrix in by_column:
        if matrix.dtype not in _DTYPES or matrix.ndim != 2 or not matrix.size:
            raise KernelError(
                f"a matrix of {matrix.dtype} {matrix.shape} cannot be packed; it needs two dimensions that are not 0 and "
                "float32, float16 or bfloat16"
            )
        if matrix.shape[1] != first.shape[1] or matrix.dtype != first.dtype:
            raise KernelError(
                f"matrices of depth and type {matrix.shape[1], matrix.dtype} and {first.shape[1], first.dtype} cannot be joined"
            )
    if interleave and (len(by_column) != 2 or len(by_column[1]) != len(first)):
        columns = [len(matrix) for matrix in by_column]
        raise KernelError(f"a gate and what it gates have as many columns; found {columns}")
