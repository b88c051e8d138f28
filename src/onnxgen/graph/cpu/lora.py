"""Matrices of adapters as the kernels of a step read them, and those kernels; `compiled.lora` draws both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel

LANES = 16
RECORD_WORDS = 4
"""As `compiled.lora`."""

_TILES_OF_PIECE = 16
_FLOATS_PER_PART = 16384


@dataclass(frozen=True, slots=True)
class PackedLora:
    """What one adapter adds to one product.

    Attributes:
        a: float32 ``[rank tiles, depth, 16]``.
        b: float32 ``[.., 16]``.
        tiles: int32 ``[tiles, 3]``.
    """

    a: np.ndarray
    b: np.ndarray
    tiles: np.ndarray

    @property
    def record(self) -> tuple[int, int, int, int]:
        """The words that kernels find it by; the arrays must outlive them."""
        return self.a.ctypes.data, self.b.ctypes.data, self.tiles.ctypes.data, len(self.a)

    @property
    def num_bytes(self) -> int:
        """Of all arrays."""
        return self.a.nbytes + self.b.nbytes + self.tiles.nbytes


def pack_lora(a: np.ndarray, b: np.ndarray) -> PackedLora:
    """Pack ``a`` ``[rank, depth]`` and ``b`` ``[columns, rank]``, float32; of ``b`` what is zero is left out."""
    rank, depth = a.shape
    columns = b.shape[0]
    rank_tiles, tiles = -(-rank // LANES), -(-columns // LANES)
    ranks = np.zeros((rank_tiles * LANES, depth), np.float32)
    ranks[:rank] = a
    by_tile = np.zeros((tiles * LANES, rank), np.float32)
    by_tile[:columns] = b
    by_tile = by_tile.reshape(tiles, LANES, rank)
    table = np.zeros((tiles, 3), np.int32)
    kept: list[np.ndarray] = []
    at = 0
    for tile, own in enumerate(by_tile):
        used = np.flatnonzero(own.any(axis=0))
        if not used.size:
            continue
        first, end = int(used[0]), int(used[-1]) + 1
        table[tile] = first, end - first, at
        kept.append(own[:, first:end].T)
        at += end - first
    packed = np.concatenate(kept) if kept else np.zeros((1, LANES), np.float32)
    return PackedLora(
        np.ascontiguousarray(ranks.reshape(rank_tiles, LANES, depth).transpose(0, 2, 1)),
        np.ascontiguousarray(packed, np.float32),
        table,
    )


def down_kernel() -> StepKernel:
    """``h = x A``."""
    names = ("rows", "adapters", "records", "x", "x_stride", "width", "h", "h_stride", "most")
    return step_kernel("lora:lora_down", names)


def up_kernel() -> StepKernel:
    """``y += h B``."""
    names = ("rows", "adapters", "records", "h", "h_stride", "y", "y_stride", "width")
    return step_kernel("lora:lora_up", names)


def gated_tiles_kernel(function: str) -> StepKernel:
    """``y = function(gate) * up``, where tiles of both take turns."""
    names = ("rows", "width", "x", "x_stride", "y", "y_stride")
    return step_kernel("tiled_gates:gated_tiles", names, function=function)


def parts_of_down(rows: int, width: int, rank_tiles: int) -> int:
    """Parts of `down_kernel`."""
    return max(1, min(rows * rank_tiles, -(-rows * rank_tiles * LANES * width // _FLOATS_PER_PART)))


def parts_of_up(rows: int, width: int, rank_tiles: int) -> int:
    """Parts of `up_kernel`."""
    pieces = -(-width // (LANES * _TILES_OF_PIECE))
    return max(1, min(rows * pieces, -(-rows * rank_tiles * LANES * width // _FLOATS_PER_PART)))
