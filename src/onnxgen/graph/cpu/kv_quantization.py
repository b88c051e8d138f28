"""Key-value caches in fewer bits: what is stored, and what attention sees."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.head_rows import FLOAT_TYPES
from onnxgen.graph.ep.node import NodeSpec

_FLOAT8 = np.dtype(ml_dtypes.float8_e4m3fn)


@dataclass(frozen=True, slots=True)
class CacheCodec:
    """How rows of a cache are stored.

    Attributes:
        dtype: The floating-point type of a cache that is not of integers.
        bits: 8 or 4 where it is, None otherwise. Two 4-bit values share a byte, the first in its low half, 8 is zero.
        scale: Broadcasts to ``[kv_heads, rows, head_dim]``; None where the cache has the type of the keys.
    """

    dtype: np.dtype
    bits: int | None
    scale: np.ndarray | None

    @staticmethod
    def of_node(node: NodeSpec, part: str, scale: np.ndarray | None, dtype: np.dtype) -> CacheCodec:
        """The codec of a node's ``k`` or ``v`` cache, whose element type is ``dtype``."""
        kind = node.attr(f"{part}_quant_type", "NONE")
        if kind == "NONE":
            return CacheCodec(dtype, None, None)
        if kind not in ("PER_TENSOR", "PER_CHANNEL") or scale is None:
            raise InvalidGraphError(
                f"{node}: {part}_quant_type {kind!r} needs a scale and one of PER_TENSOR, PER_CHANNEL"
            )
        bits = None if dtype == _FLOAT8 else node.attr("kv_cache_bit_width", 0) or 8
        if bits not in (8, 4, None):
            raise InvalidGraphError(f"{node}: kv_cache_bit_width {bits} is neither 8 nor 4")
        shape = () if scale.size == 1 else scale.shape[-3:]
        return CacheCodec(dtype, bits, scale.reshape(shape))

    def stored_width(self, head_dim: int) -> int:
        """Elements of a stored row."""
        return (head_dim + 1) // 2 if self.bits == 4 else head_dim

    @property
    def is_compiled(self) -> bool:
        """Whether compiled code reads and writes such a cache: floats of 16 or 32 bits, or whole numbers with a scale."""
        if self.scale is None:
            return self.dtype in FLOAT_TYPES
        return (self.bits, self.dtype) in ((8, np.dtype(np.int8)), (4, np.dtype(np.uint8)))

    def scales(self, heads: int, width: int) -> np.ndarray | None:
        """The scale as float32 ``[heads, width]``; None where there is none."""
        if self.scale is None:
            return None
        return np.ascontiguousarray(np.broadcast_to(self.scale, (heads, 1, width))[:, 0], np.float32)

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """Float32 rows as they are stored."""
        if self.scale is None:
            return rows.astype(self.dtype, copy=False)
        if self.bits is None:
            largest = np.float32(ml_dtypes.finfo(self.dtype).max)
            return np.clip(rows / self.scale, -largest, largest).astype(self.dtype)
        low = -(1 << (self.bits - 1))
        whole = np.clip(np.rint(rows / self.scale), low, -low - 1).astype(np.int8)
        if self.bits == 8:
            return whole
        unsigned = (whole + 8).astype(np.uint8)
        if unsigned.shape[-1] % 2:
            unsigned = np.concatenate([unsigned, np.full((*unsigned.shape[:-1], 1), 8, np.uint8)], axis=-1)
        return unsigned[..., ::2] | unsigned[..., 1::2] << 4

    def decode(self, stored: np.ndarray) -> np.ndarray:
        """Stored rows in float32."""
        if self.scale is None:
            return widened(stored)
        if self.bits == 4:
            halves = np.stack([stored & 15, stored >> 4], axis=-1).astype(np.int8) - 8
            stored = halves.reshape(*stored.shape[:-1], -1)
        return stored.astype(np.float32) * self.scale
