"""Transposed convolution and ``Col2Im``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnxgen.graph.cpu.convolution import convolve_transposed, scatter
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.cpu.windows import Axis, WindowSpec
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("ConvTranspose", 1, 11, 22)
def conv_transpose(node: NodeSpec) -> Kernel:
    """Transposed convolution over any number of spatial axes, in groups."""
    spec, group = WindowSpec.of(node), node.attr("group", 1)
    output_padding, output_shape = node.attr("output_padding"), node.attr("output_shape")

    def run(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        rank = x.ndim - 2
        wanted = None if output_shape is None else tuple(output_shape)[-rank:]
        axes = _transposed_axes(
            spec, x.shape[2:], w.shape[2:], output_padding or (0,) * rank, wanted or (None,) * rank
        )
        y = convolve_transposed(widened(x), widened(w), axes, group=group)
        if b is not None:
            y += widened(b).reshape(-1, *(1,) * rank)
        return y.astype(x.dtype, copy=False)

    return Kernel(run)


def _transposed_axes(
    spec: WindowSpec,
    sizes: Sequence[int],
    kernel: Sequence[int],
    paddings: Sequence[int],
    wanted: Sequence[int | None],
) -> tuple[Axis, ...]:
    """Axes of the convolution whose input (``Axis.size``) is the output of this one."""
    explicit = replace(spec, auto_pad="NOTSET")
    return tuple(
        _transposed_axis(axis, spec.auto_pad, size, padding, want)
        for axis, size, padding, want in zip(
            explicit.axes(sizes, kernel), sizes, paddings, wanted, strict=True
        )
    )


def _transposed_axis(axis: Axis, auto_pad: str, size: int, padding: int, wanted: int | None) -> Axis:
    full = axis.stride * (size - 1) + padding + axis.extent
    if wanted is None and auto_pad.startswith("SAME"):
        wanted = size * axis.stride
    if wanted is None:
        begin, end = (0, 0) if auto_pad == "VALID" else (axis.pad_begin, axis.pad_end)
        return replace(axis, size=max(0, full - begin - end), out=size, pad_begin=begin, pad_end=end)
    total = max(0, full - wanted)
    begin = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
    return replace(axis, size=wanted, out=size, pad_begin=begin, pad_end=total - begin)


@TABLE.operator("Col2Im", 18)
def col2im(node: NodeSpec) -> Kernel:
    """Sum columns ``[batch, channels * block, positions]`` back into an image ``[batch, channels, *size]``."""
    spec = WindowSpec.of(node)

    def run(columns: np.ndarray, image_shape: np.ndarray, block_shape: np.ndarray) -> np.ndarray:
        sizes, block = image_shape.tolist(), block_shape.tolist()
        axes = spec.axes(sizes, block)
        batch, channels = columns.shape[0], columns.shape[1] // int(np.prod(block))
        patches = widened(columns).reshape(batch, channels, *block, *(axis.out for axis in axes))
        y = np.zeros((batch, channels, *sizes), patches.dtype)
        scatter(patches, y, axes)
        return y.astype(columns.dtype, copy=False)

    return Kernel(run)
