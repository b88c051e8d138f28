"""Transposed convolution, also with pads as an input (``com.microsoft``), and ``Col2Im``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.convolution import convolve_transposed, require_transposed_fit, scatter
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import integers
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.windows import Axis, WindowSpec
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

if TYPE_CHECKING:
    from onnxgen.graph.cpu.transposed_phases import Phase

TABLE = KernelTable()


@TABLE.operator("ConvTranspose", 1, 11, 22)
def conv_transpose(node: NodeSpec) -> Kernel:
    """Transposed convolution over any number of spatial axes, in groups."""
    from onnxgen.graph.cpu.transposed_phases import can_split, convolve_phases, pack_phases

    spec, group = WindowSpec.of(node), node.attr("group", 1)
    output_padding, output_shape = node.attr("output_padding"), node.attr("output_shape")

    held = 1 in node.constants and (not node.has_input(2) or 2 in node.constants)
    packed: list[tuple[Phase, ...]] = []

    def axes_of(x: np.ndarray, w: np.ndarray) -> tuple[Axis, ...]:
        rank = x.ndim - 2
        wanted = None if output_shape is None else tuple(output_shape)[-rank:]
        return _transposed_axes(
            spec, x.shape[2:], w.shape[2:], output_padding or (0,) * rank, wanted or (None,) * rank
        )

    def by_phases(
        x: np.ndarray, w: np.ndarray, b: np.ndarray | None, axes: tuple[Axis, ...], y: np.ndarray
    ) -> None:
        phases = packed[0] if packed else pack_phases(w, b, [axis.stride for axis in axes], group=group)
        if held and not packed:
            packed.append(phases)
        convolve_phases(x, phases, b, axes, y)

    def write(x: np.ndarray, w: np.ndarray, *rest: Any) -> None:
        b, y = (*rest[:-1], None)[0], rest[-1]
        wide, axes = widened(x), axes_of(x, w)
        require_transposed_fit(x, w, b, group)
        if y.size and x.size and can_split(wide.dtype, axes):
            target = y if y.dtype == np.float32 else np.empty(y.shape, np.float32)
            by_phases(wide, widened(w), widened(b), axes, target)
        else:
            target = convolve_transposed(wide, widened(w), axes, group=group)
            if b is not None:
                target += widened(b).reshape(-1, *(1,) * len(axes))
        if target is not y:
            y[...] = target

    def run(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        shape = (x.shape[0], w.shape[1] * group, *(axis.size for axis in axes_of(x, w)))
        require_memory(node, shape, x.dtype)
        y = np.empty(shape, x.dtype)
        write(x, w, b, y)
        return y

    return Kernel(run, write)


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


@TABLE.operator("ConvTransposeWithDynamicPads", 1, domain=MICROSOFT)
def conv_transpose_with_dynamic_pads(node: NodeSpec) -> Kernel:
    """ConvTranspose whose pads are an input."""

    def run(
        x: np.ndarray, w: np.ndarray, pads: np.ndarray | None = None, b: np.ndarray | None = None
    ) -> np.ndarray:
        given = {} if pads is None else {"pads": tuple(integers(pads))}
        return conv_transpose(replace(node, attributes={**node.attributes, **given})).run(x, w, b)

    return Kernel(run)


@TABLE.operator("Col2Im", 18)
def col2im(node: NodeSpec) -> Kernel:
    """Sum columns ``[batch, channels * block, positions]`` back into an image ``[batch, channels, *size]``."""
    spec = WindowSpec.of(node)

    def run(columns: np.ndarray, image_shape: np.ndarray, block_shape: np.ndarray) -> np.ndarray:
        sizes, block = integers(image_shape), integers(block_shape)
        if min((*sizes, *block), default=1) < 1 or columns.shape[1] % math.prod(block):
            raise KernelError(
                f"{node}: columns {columns.shape} do not hold blocks {block} of an image {sizes}"
            )
        axes = spec.axes(sizes, block)
        batch, channels = columns.shape[0], columns.shape[1] // math.prod(block)
        require_memory(node, (batch, channels, *sizes), columns.dtype)
        patches = widened(columns).reshape(batch, channels, *block, *(axis.out for axis in axes))
        y = np.zeros((batch, channels, *sizes), patches.dtype)
        scatter(patches, y, axes)
        return y.astype(columns.dtype, copy=False)

    return Kernel(run)
