"""Matrices of 2, 4 and 8 bits as the kernels of a step read them: packed once, when a model is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from onnxgen.foundations.cpuinfo import default_threads
from onnxgen.foundations.packed_bits import unpack
from onnxgen.graph.cpu.aligned_memory import aligned
from onnxgen.graph.cpu.block_matrix import (
    BITS,
    BLOCK_SIZES,
    BlockMatrix,
    as_float32,
    check_together,
    format_of,
    joined,
    zeros_of,
)
from onnxgen.graph.cpu.compiled.blocks import arguments
from onnxgen.graph.cpu.compiled.blocks.format import (
    LANES,
    PANEL_COLUMNS,
    PANEL_TILES,
    BlockFormat,
)
from onnxgen.graph.cpu.compiled.blocks.schedule import parts_of_product, unpack_from
from onnxgen.graph.cpu.compiled.header import HEADER_WORDS
from onnxgen.graph.cpu.step.crew import crew
from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel
from onnxgen.graph.cpu.step.table import StepShape, StepTable

__all__ = ["BITS", "BLOCK_SIZES", "BlockMatrix", "PackedBlocks", "pack"]

_MOST_PARTS = 256


@dataclass(frozen=True, slots=True)
class PackedBlocks:
    """A packed matrix; `onnxgen.graph.cpu.compiled.blocks.format` draws it.

    Attributes:
        data: uint8 ``[panels * panel bytes]``.
        form: Its format.
        depth: K.
        columns: Columns of all matrices in it.
        interleaved: Its two matrices, a gate and what it gates, take turns tile by tile.
    """

    data: np.ndarray
    form: BlockFormat
    depth: int
    columns: int
    interleaved: bool = False

    @property
    def panels(self) -> int:
        """Panels of 64 columns, the last one filled up with zeros."""
        return self.data.size // self.panel_bytes

    @property
    def panel_bytes(self) -> int:
        """Bytes of a panel."""
        return self.form.panel_bytes(self.depth)

    @property
    def num_bytes(self) -> int:
        """Bytes that a product of one row reads."""
        return self.data.size

    @property
    def groups(self) -> int:
        """Groups along the depth: each has a scale of the activations."""
        return self.form.groups(self.depth)

    def parts(self, rows: int, *, threads: int | None = None) -> int:
        """Parts of a product with so many rows, best for so many threads; None takes those of operators."""
        return parts_of_product(rows, self.panels, self.panel_bytes, threads or _usual_threads())

    def product(self, gate: str | None = None) -> StepKernel:
        """The kernel that multiplies by it: `product_arguments` gives what is its own among the arguments.

        Args:
            gate: One of `compiled.blocks.endings.GATES`, where a gate and what it gates are interleaved.
        """
        assert (gate is not None) == self.interleaved, "what is interleaved is gated, and nothing else"
        return step_kernel(
            "blocks.product:block_product",
            arguments.PRODUCT,
            form=self.form,
            gate=gate,
            unpack_from=unpack_from(),
        )

    def product_arguments(self) -> dict[str, int]:
        """``weights``, ``groups``, ``panels`` and ``columns`` of a product."""
        return {
            "weights": self.data.ctypes.data,
            "groups": self.groups,
            "panels": self.panels,
            "columns": self.columns // 2 if self.interleaved else self.columns,
        }

    def rows(self) -> StepKernel:
        """The kernel that gives columns of the matrix as float32 rows: embeddings of tokens."""
        return step_kernel("blocks.rows:block_rows", arguments.ROWS, form=self.form)

    def rows_arguments(self) -> dict[str, int]:
        """``weights``, ``panel_bytes``, ``columns`` and ``depth`` of such rows."""
        return {
            "weights": self.data.ctypes.data,
            "panel_bytes": self.panel_bytes,
            "columns": self.columns,
            "depth": self.depth,
        }

    def dequantized(self) -> np.ndarray:
        """float32 ``[columns, depth]``, column by column as they lie in the panels; for tests, slow."""
        form, blocks = self.form, self.form.blocks(self.depth)
        data = self.data.reshape(self.panels, blocks, form.block_bytes)
        cuts = np.cumsum([PANEL_TILES * form.scale_bytes, PANEL_TILES * form.zero_bytes])
        scales, zeros, codes = np.split(data, cuts, axis=2)
        kind = np.float32 if form.exact else np.float16

        def by_column(values: np.ndarray) -> np.ndarray:
            """``[panels, blocks, columns of a panel, ...]`` with all columns first."""
            return values.swapaxes(1, 2).reshape(self.panels * PANEL_COLUMNS, blocks, -1)

        scale = by_column(np.ascontiguousarray(scales).view(kind).astype(np.float32))
        fields = unpack(codes.reshape(-1, 1), form.bits, form.fields)
        # [panels, blocks, groups, tiles, vectors, lanes, bytes, fields]
        fields = fields.reshape(
            self.panels, blocks, form.groups_per_block, PANEL_TILES, form.vectors, LANES, 4, form.fields
        )
        if form.words:
            fields = fields[..., [0, 2, 1, 3], :]
        # [panels, tiles, lanes, blocks, groups, fields, vectors, bytes]
        values = fields.transpose(0, 3, 5, 1, 2, 7, 4, 6).reshape(len(scale), blocks, form.block)
        values = values.astype(np.float32)
        if form.zeros == "bytes":
            product = (values - by_column(zeros)) * scale
        elif form.zeros == "offsets":
            offset = by_column(np.ascontiguousarray(zeros).view(kind).astype(np.float32))
            product = (values - form.middle) * scale + offset
        else:
            product = (values - form.middle) * scale
        columns = product.reshape(len(scale), -1)[:, : self.depth]
        if self.interleaved:
            tiles = columns.reshape(-1, 2, LANES, self.depth)  # [pairs of tiles, 2, ...]
            half = self.columns // 2
            return np.concatenate([tiles[:, which].reshape(-1, self.depth)[:half] for which in (0, 1)])
        return columns[: self.columns]


def pack(
    matrices: Sequence[BlockMatrix],
    *,
    words: bool = False,
    interleave: bool = False,
    threads: int | None = None,
    allocate: Callable[[int], np.ndarray] = aligned,
) -> PackedBlocks:
    """Pack matrices of one depth and block size.

    Args:
        matrices: Joined side by side, such as query, key and value.
        words: Activations will be int16, for accuracy levels below 4.
        interleave: The two matrices are a gate and what it gates.
        threads: How many pack it; None takes those of operators.
        allocate: Gives memory for the packed matrix: zeros, uint8; `Arena.allocate` where there are many.

    Raises:
        KernelError: The matrices do not fit together, or have bits or blocks that there are no kernels for.
    """
    first = matrices[0]
    check_together(matrices, interleave)
    form = format_of(matrices, words)
    if not interleave and any(matrix.columns % LANES for matrix in matrices[:-1]):
        matrices = [joined(matrices)]
    tiles = [-(-matrix.columns // LANES) for matrix in matrices]
    data = allocate(-(-sum(tiles) // PANEL_TILES) * form.panel_bytes(first.depth))
    table, tile = StepTable(), 0
    for index, matrix in enumerate(matrices):
        half = matrix.scales.dtype == np.float16
        held = [
            np.ascontiguousarray(matrix.codes),
            np.ascontiguousarray(matrix.scales if half else as_float32(matrix.scales)),
            *([np.ascontiguousarray(zeros_of(matrix, form))] if form.zeros != "middle" else []),
        ]
        addresses = [array.ctypes.data for array in held]
        table.keep(*held)
        table.add(
            step_kernel("blocks.packing:pack_blocks", arguments.PACK, form=form, half_scales=half),
            parts=min(tiles[index], _MOST_PARTS),
            codes=addresses[0],
            scales=addresses[1],
            zeros=addresses[2] if len(addresses) > 2 else 0,
            columns=matrix.columns,
            blocks=form.blocks(first.depth),
            zero_stride=-(-form.blocks(first.depth) * form.bits // 8),
            panels=data.ctypes.data,
            first_tile=index if interleave else tile,
            tile_step=len(matrices) if interleave else 1,
        )
        tile += tiles[index]
    counts = table.counts(StepShape(tokens=0, rows=0))
    crew().run(table, counts, np.zeros(HEADER_WORDS, np.int64), threads=threads or _usual_threads())
    return PackedBlocks(data, form, first.depth, sum(matrix.columns for matrix in matrices), interleave)


@cache
def _usual_threads() -> int:
    return default_threads()
