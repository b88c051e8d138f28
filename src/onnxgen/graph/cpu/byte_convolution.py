"""Convolutions of bytes over up to two axes: weights times what windows see, in tiles of integer dot products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxgen.graph.cpu import byte_kernels
from onnxgen.graph.cpu.byte_layout import PANEL, SIGN, padded_depth
from onnxgen.graph.cpu.packed_bytes import BYTES, division
from onnxgen.graph.cpu.placed import Placed, placed
from onnxgen.graph.cpu.step.kernel import StepKernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls, workspace
from onnxgen.graph.cpu.windows import Axis

_PATCHES_PER_S = 3e9
"""Bytes of windows that one thread lays out, roughly: to tell what is worth sharing."""

_FEWEST_CHANNELS = 4
"""Outputs of a group: with fewer, most of the time goes into laying out windows."""

_FLAT = Axis(1, 1, out=1)


@dataclass(frozen=True, slots=True)
class ArrangedWeights:
    """Weights as left operands, one of each group.

    Attributes:
        bytes: uint8 ``[out, padded depth]``.
        sums: int32 ``[out]``.
        zeros: int32 zero points, one for all or ``[out]``.
        flip: By what the bytes were moved.
        group: Groups.
        channels: Input channels of a group.
        rows: Output channels of a group.
        depth: Elements of a window in all channels.
    """

    bytes: Placed
    sums: Placed
    zeros: Placed
    flip: int
    group: int
    channels: int
    rows: int
    depth: int

    @classmethod
    def of(cls, w: np.ndarray, zero_point: np.ndarray | None, group: int) -> ArrangedWeights:
        """Arrange int8 or uint8 ``w [out, in / group, *kernel]`` with one zero point for all, or one for each output."""
        outs, depth = w.shape[0], math.prod(w.shape[1:])
        flip = SIGN if w.dtype == np.int8 else 0
        padded = np.zeros((outs, padded_depth(depth)), np.uint8)
        padded[:, :depth] = w.reshape(outs, depth).view(np.uint8) ^ np.uint8(flip)
        zeros = np.zeros(1, np.int32) if zero_point is None else zero_point.reshape(-1).astype(np.int32)
        sums = padded.sum(1, dtype=np.int32)
        return cls(placed(padded), placed(sums), placed(zeros), flip, group, w.shape[1], outs // group, depth)


@dataclass(frozen=True, slots=True)
class Requantization:
    """How totals become bytes again.

    Attributes:
        scales: float32: of both operands, one for all or ``[out]``.
        y_scale: float32, one.
        y_zero: int32, one.
        bias: int32 ``[out]``, added to totals; None for none.
    """

    scales: Placed
    y_scale: Placed
    y_zero: Placed
    bias: Placed | None


def fits_bytes(x: np.ndarray, w: np.ndarray, axes: Sequence[Axis], group: int) -> bool:
    """Whether `ByteConvolution` takes these operands, which fit each other."""
    return (
        x.dtype in BYTES
        and w.dtype in BYTES
        and 1 <= len(axes) <= 2
        and w.shape[0] // group >= _FEWEST_CHANNELS
        and min(x.size, w.size, *(axis.out for axis in axes)) > 0
    )


class ByteConvolution:
    """Convolutions of a node. May be used from several threads."""

    def __init__(self) -> None:
        self._calls: dict[str, NodeCalls] = {}

    def totals(
        self, x: np.ndarray, x_zero: int, w: ArrangedWeights, axes: Sequence[Axis], y: np.ndarray
    ) -> None:
        """``(x - x_zero)`` convolved with ``w`` into int32 ``y [batch, out, *axes.out]``; padding is the zero point."""
        self._convolve("totals", x, x_zero, w, axes, y, None)

    def requantized(
        self,
        x: np.ndarray,
        x_zero: int,
        w: ArrangedWeights,
        axes: Sequence[Axis],
        y: np.ndarray,
        to: Requantization,
    ) -> None:
        """The totals, scaled and rounded into int8 or uint8 ``y``."""
        self._convolve("bytes", x, x_zero, w, axes, y, to)

    def _convolve(
        self,
        result: str,
        x: np.ndarray,
        x_zero: int,
        w: ArrangedWeights,
        axes: Sequence[Axis],
        y: np.ndarray,
        to: Requantization | None,
    ) -> None:
        high, wide = _two(axes)
        flip = SIGN if x.dtype == np.uint8 else 0
        columns, padded = high.out * wide.out, padded_depth(w.depth)
        panels = -(-columns // PANEL)
        zeros, tiles, sums = workspace().addresses(4 * columns, panels * padded * PANEL, 4 * panels * PANEL)
        source, ones = placed(x), placed(np.ones(1 if to is None else columns, np.float32))
        blocks, parts, seconds = division(w.rows, w.depth, columns)
        calls = self._calls_of(result, (byte_kernels.pack_patches(), byte_kernels.product(result)))
        for image in range(x.shape[0]):
            for group in range(w.group):
                first = group * w.rows
                patches = (
                    source.address + (image * w.group + group) * w.channels * high.size * wide.size,
                    *(w.channels, high.size, wide.size, high.out, wide.out, high.kernel, wide.kernel),
                    *(high.stride, wide.stride, high.dilation, wide.dilation, high.pad_begin, wide.pad_begin),
                    *(flip, x_zero & 0xFF, x_zero - flip, zeros, tiles, sums),
                )
                place = (image * w.group + group) * w.rows * columns * y.itemsize
                product = (
                    *(w.bytes.address + first * padded, w.sums.address + 4 * first),
                    *(_of(w.zeros, first), _step(w.zeros), w.flip, w.rows, w.depth),
                    *(tiles, sums, zeros, columns, 0),
                    0 if to is None or to.bias is None else to.bias.address + 4 * first,
                    *(blocks, y.ctypes.data + place),
                    *(() if to is None else _ends(to, first, ones, y)),
                )
                calls.run(
                    (patches, product),
                    (panels, parts),
                    seconds=seconds + panels * padded * PANEL / _PATCHES_PER_S,
                )

    def _calls_of(self, name: str, kernels: tuple[StepKernel, ...]) -> NodeCalls:
        if name not in self._calls:
            self._calls[name] = NodeCalls(*kernels)
        return self._calls[name]


def _two(axes: Sequence[Axis]) -> tuple[Axis, Axis]:
    """Height and width; a plane whose elements are all windows is one long row."""
    if all(axis.is_pointwise for axis in axes):
        size = math.prod(axis.size for axis in axes)
        return _FLAT, replace(axes[-1], size=size, out=size)
    high, wide = (*[_FLAT] * (2 - len(axes)), *axes)
    return high, wide


def _of(parameter: Placed, first: int) -> int:
    return parameter.address + _step(parameter) * first


def _step(parameter: Placed) -> int:
    return 4 if parameter.array.size > 1 else 0


def _ends(to: Requantization, first: int, ones: Placed, y: np.ndarray) -> tuple[int, ...]:
    low = -SIGN if y.dtype == np.int8 else 0
    scales = _of(to.scales, first), _step(to.scales), ones.address
    return *scales, to.y_scale.address, to.y_zero.address, low
