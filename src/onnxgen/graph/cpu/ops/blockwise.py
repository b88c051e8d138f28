"""Matrix products with, and rows of, weights that are quantized in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.foundations.packed_bits import unpack
from onnxgen.graph.cpu.block_products import BlockProducts, needs_words
from onnxgen.graph.cpu.block_weights import Arranged, BlockWeights, arranged
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.half_conversion import converted
from onnxgen.graph.cpu.indexing import checked_axis, checked_indices
from onnxgen.graph.cpu.packed_blocks import pack
from onnxgen.graph.cpu.placed import placed
from onnxgen.graph.cpu.quantization import dequantize, spread
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.step.kernel import step_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_MOST_KEPT_ELEMENTS = 1 << 26
"""Constant weights up to this size are kept in float32; larger ones are read anew, rows at a time, at each call."""

_ROW_ELEMENTS = 1 << 22

Rows = Callable[[slice], np.ndarray]
"""Some rows of a matrix ``[N, K]`` in float32."""


def _is_prepacked(node: NodeSpec) -> str | None:
    layout = node.attr("weight_prepacked", 0)
    return f"weights are packed for a GPU (weight_prepacked {layout})" if layout else None


@TABLE.operator("MatMulNBits", 1, domain=MICROSOFT, why_not=_is_prepacked)
def matmul_nbits(node: NodeSpec) -> Kernel:
    """``a @ dequantized(b).T + bias`` for ``b [N, blocks, bytes]``.

    Activations are quantized to int8 where ``accuracy_level`` is 4, else to int16, in groups of 32 along K; weights that are
    not constant are multiplied in float32, which satisfies every level. Empty ``b`` stands for weights of zeros.
    """
    n, k, block, bits = node.attr("N"), node.attr("K"), node.attr("block_size"), node.attr("bits", 4)
    if not 1 <= bits <= 8 or block < 1:
        raise InvalidGraphError(
            f"{node} has weights of {bits} bits in blocks of {block}; known are 1 to 8 bits"
        )
    blocks = -(-k // block)

    def rows_of(
        b: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None, g_idx: np.ndarray | None
    ) -> Rows:
        packed, factors = b.reshape(n, blocks, -1), widened(scales).reshape(n, blocks)
        if zeros is None:
            offsets = np.full((n, 1), 1 << (bits - 1), np.float32)
        elif zeros.dtype == np.uint8:
            offsets = unpack(zeros.reshape(n, -1), bits, blocks).astype(np.float32)
        else:
            offsets = widened(zeros).reshape(n, blocks)
        group = None if g_idx is None else checked_indices(node, g_idx[:k], blocks, from_end=False)

        def rows(part: slice) -> np.ndarray:
            values = unpack(packed[part], bits, block).astype(np.float32)  # [rows, blocks, block]
            scale, offset = factors[part], np.broadcast_to(offsets[part], factors[part].shape)
            if group is None:
                values -= offset[:, :, None]
                values *= scale[:, :, None]
                return values.reshape(len(values), -1)[:, :k]
            flat = values.reshape(len(values), -1)[:, :k]
            return (flat - offset[:, group]) * scale[:, group]

        return rows

    packed = _packed(node, n, k, bits, block)

    def run(a: np.ndarray, b: np.ndarray, scales: np.ndarray, *rest: np.ndarray | None) -> np.ndarray:
        y = np.empty((*a.shape[:-1], n), a.dtype)
        into(a, b, scales, *rest, y)
        return y

    def into(a: np.ndarray, b: np.ndarray, scales: np.ndarray, *rest: np.ndarray | None) -> None:
        *given, y = rest
        zeros, g_idx, bias = (*given, *(None,) * (3 - len(given)))
        assert y is not None
        if a.shape[-1] != k:
            raise KernelError(f"{node}: an input of shape {a.shape} does not have K={k} columns")
        left = np.ascontiguousarray(widened(a)).reshape(-1, k)
        wide = y.reshape(-1, n) if y.dtype == np.float32 else np.empty((len(left), n), np.float32)
        if packed is not None:
            packed.multiply(left, wide, bias)
        else:
            if b.size:
                rows = rows_of(b, scales, zeros, g_idx)
                for part in _parts(n, k):
                    np.matmul(left, rows(part).T, out=wide[:, part])
            else:
                wide[...] = 0
            if bias is not None:
                wide += widened(bias)
        if y.dtype != np.float32:
            converted(wide.reshape(y.shape), y.dtype, y)

    return Kernel(run, into, absorbed=(1, 2, 3, 4) if packed is not None else ())


class _Packed:
    """Constant weights as kernels take them."""

    def __init__(self, arrangement: Arranged, *, words: bool) -> None:
        self._order = arrangement.order
        self._products = BlockProducts(pack([arrangement.matrix], words=words))

    def multiply(self, x: np.ndarray, y: np.ndarray, bias: np.ndarray | None) -> None:
        if self._order is not None:
            x = x.take(self._order, axis=1)
        if bias is not None:
            bias = np.ascontiguousarray(widened(bias))
        self._products.multiply(x, y, bias)


def _packed(node: NodeSpec, n: int, k: int, bits: int, block: int) -> _Packed | None:
    """The node's weights, packed; None where they are not constant, or no kernel takes them."""
    given = [index for index in (1, 2, 3, 4) if node.has_input(index)]
    if not all(index in node.constants for index in given) or not node.constants[1].size or not k:
        return None
    codes, scales, zeros, g_idx = map(node.constants.get, (1, 2, 3, 4))
    assert codes is not None and scales is not None
    if g_idx is not None:
        g_idx = checked_indices(node, g_idx[:k], -(-k // block), from_end=False)
    codes = codes.reshape(n, -(-k // block), -1)
    arrangement = arranged(BlockWeights(codes, scales, zeros, k, bits, block, g_idx))
    if arrangement is None:
        return None
    return _Packed(arrangement, words=needs_words(node.attr("accuracy_level", 0)))


def _parts(n: int, k: int) -> Iterator[slice]:
    step = max(1, _ROW_ELEMENTS // max(1, k))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
_FP4 = (0.0, 0.0052083333, 0.6666666667, 1.0, 0.3333333333, 0.5, 0.1666666667, 0.25)


@TABLE.operator("MatMulBnb4", 1, domain=MICROSOFT)
def matmul_bnb4(node: NodeSpec) -> Kernel:
    """``a @ b.T`` (``a @ b`` without ``transB``) for ``b [N, K]`` as 4-bit indices into the values of FP4 or NF4.

    The flattened matrix has one scale for each ``block_size`` elements, and the first element in the high bits.
    ``training_mode`` asks for a gradient that nobody computes here.
    """
    n, k, block = node.attr("N"), node.attr("K"), node.attr("block_size")
    if node.attr("quant_type") not in (0, 1):
        raise InvalidGraphError(
            f"{node} has quant_type {node.attr('quant_type')}; known are 0 (FP4) and 1 (NF4)"
        )
    values = np.array(_NF4 if node.attr("quant_type") else (*_FP4, *(-value for value in _FP4)), np.float32)

    def matrix(b: np.ndarray, absmax: np.ndarray) -> np.ndarray:
        indices = np.stack([b.reshape(-1) >> 4, b.reshape(-1) & 15], -1).reshape(-1)[: n * k]
        scales = np.repeat(widened(absmax).reshape(-1), block)[: n * k]
        return (values[indices] * scales).reshape(n, k)

    kept = None
    if {1, 2} <= node.constants.keys() and n * k <= _MOST_KEPT_ELEMENTS:
        kept = matrix(node.constants[1], node.constants[2])

    def run(a: np.ndarray, b: np.ndarray, absmax: np.ndarray) -> np.ndarray:
        weights = matrix(b, absmax) if kept is None else kept
        y = widened(a) @ (weights.T if node.attr("transB", 1) else weights)
        return y.astype(a.dtype, copy=False)

    return Kernel(run)


@TABLE.operator("GatherBlockQuantized", 1, domain=MICROSOFT)
def gather_block_quantized(node: NodeSpec) -> Kernel:
    """Slices of a tensor that is quantized in blocks, dequantized; zeros for an index out of range."""
    block, bits = node.attr("block_size", 128), node.attr("bits", 4)
    gather_axis, quantize_axis = node.attr("gather_axis", 0), node.attr("quantize_axis", 1)
    table = _table(node, block, bits)
    if table is not None:
        return Kernel(table.rows, absorbed=(2, 3))

    def run(
        data: np.ndarray, indices: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None = None
    ) -> np.ndarray:
        axis, blocked = (checked_axis(node, at, data.ndim) for at in (gather_axis, quantize_axis))
        size = data.shape[axis]
        places = np.where(indices < 0, indices + size, indices).reshape(-1)
        inside = np.clip(places, 0, size - 1)

        def picked(parameter: np.ndarray) -> np.ndarray:
            if parameter.shape[axis] == 1:
                return parameter
            return parameter.take(inside // block if axis == blocked else inside, axis)

        def repeated(parameter: np.ndarray) -> np.ndarray:
            if axis == blocked:
                return parameter
            return spread(parameter, values.shape, axis=blocked, block_size=block)

        values, factors = data.take(inside, axis), picked(scales)
        offsets = None if zeros is None else picked(zeros)
        if data.dtype == np.uint8:
            values = unpack(values, bits, values.shape[-1] * 8 // bits)
            if offsets is None:
                offsets = np.full((1,) * data.ndim, 1 << (bits - 1), np.uint8)
            else:
                offsets = repeated(unpack(offsets, bits, scales.shape[-1]))
        elif offsets is not None:
            offsets = repeated(offsets)
        y = dequantize(values, repeated(factors), offsets, dtype=scales.dtype)
        y[(slice(None),) * axis + ((places < 0) | (places >= size),)] = 0
        return y.reshape(*y.shape[:axis], *indices.shape, *y.shape[axis + 1 :])

    return Kernel(run)


class _Table:
    """Rows of constant bytes, read as they are."""

    def __init__(
        self, data: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None, block: int, bits: int
    ) -> None:
        self._codes, self._scales = placed(data), placed(widened(scales))
        self._zeros = None if zeros is None else placed(zeros)
        self._dtype, self._depth, self._block = scales.dtype, data.shape[1] * 8 // bits, block
        names = (
            "ids",
            "count",
            "codes",
            "rows",
            "scales",
            "blocks",
            "zeros",
            "zero_bytes",
            "depth",
            "block",
            "y",
        )
        self._calls = NodeCalls(step_kernel("block_gathers:block_gather", names, bits=bits))

    def rows(
        self, data: np.ndarray, indices: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None = None
    ) -> np.ndarray:
        y = np.empty((*indices.shape, self._depth), np.float32)
        ids = placed(indices.astype(np.int64, copy=False))
        arguments = (
            *(ids.address, indices.size, self._codes.address, len(self._codes.array)),
            *(self._scales.address, self._scales.array.shape[1]),
            *((0, 0) if self._zeros is None else (self._zeros.address, self._zeros.array.shape[1])),
            *(self._depth, self._block, y.ctypes.data),
        )
        self._calls.run((arguments,), (indices.size,), seconds=y.size / _ELEMENTS_PER_S)
        return y if self._dtype == np.float32 else converted(y, self._dtype)


def _table(node: NodeSpec, block: int, bits: int) -> _Table | None:
    """The rows of the node's data, where that is a constant matrix of bytes with blocks along its rows."""
    data, scales, zeros = (node.constants.get(index) for index in (0, 2, 3))
    axes = node.attr("gather_axis", 0), node.attr("quantize_axis", 1)
    if data is None or scales is None or (zeros is None and node.has_input(3)):
        return None
    if data.dtype != np.uint8 or data.ndim != 2 or not data.size or axes not in ((0, 1), (0, -1)):
        return None
    if scales.shape != (len(data), -(-data.shape[1] * 8 // bits // block)) or block * bits % 8:
        return None
    return _Table(data, scales, zeros, block, bits)


_ELEMENTS_PER_S = 2e9
"""That one thread dequantizes, roughly: to tell what is worth sharing."""
