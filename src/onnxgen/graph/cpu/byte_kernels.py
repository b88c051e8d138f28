"""Kernels of products of bytes, as those see them who call them."""

from __future__ import annotations

from functools import cache

from onnxgen.graph.cpu.isa import Isa, host_isa
from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel


@cache
def pack() -> StepKernel:
    """Lay out bytes ``[depth, columns]``; flipped (128) where they are unsigned, their zero points likewise."""
    arguments = ("source", "depth", "columns", "flip", "zeros", "tiles", "sums")
    return step_kernel("byte_operands:pack", arguments, isa=host_isa())


@cache
def pack_patches() -> StepKernel:
    """Lay out what the windows of a convolution see, a column for each window."""
    arguments = (
        *("x", "channels", "height", "width", "out_height", "out_width", "kernel_height", "kernel_width"),
        *("stride_y", "stride_x", "dilation_y", "dilation_x", "pad_y", "pad_x", "flip", "outside"),
        *("zero", "zeros", "tiles", "sums"),
    )
    return step_kernel("byte_patches:pack_patches", arguments, isa=host_isa())


ARRANGE = step_kernel("byte_operands:arrange", ("source", "rows", "depth", "flip", "bytes", "sums"))
"""Lay out bytes ``[rows, depth]``; flipped (128) where they are signed."""

VALUE_RANGE = step_kernel("byte_operands:value_range", ("x", "size", "ranges", "num_ranges"))
"""The least and the largest of each of so many pieces of ``x``."""

QUANTIZE = step_kernel(
    "byte_operands:quantize",
    ("x", "rows", "depth", "ranges", "num_ranges", "bytes", "sums", "scale", "zero"),
)
"""Lay out float32 ``[rows, depth]`` as bytes that spread over its range."""

_OPERANDS = (
    *("left", "left_sums", "left_zeros", "left_zero_step", "left_flip", "rows", "depth"),
    *("right", "right_sums", "right_zeros", "columns", "addend", "row_addend", "row_blocks", "y"),
)
_SCALES = ("row_scale", "row_scale_step", "column_scale")


@cache
def product(result: str, isa: Isa | None = None) -> StepKernel:
    """The product of two operands that are laid out.

    Args:
        result: What it writes: ``totals``, ``floats`` or ``bytes``.
        isa: The instruction set; None takes that of the process.
    """
    more = {
        "totals": (),
        "floats": (*_SCALES, "bias"),
        "bytes": (*_SCALES, "y_scale", "y_zero", "low"),
    }[result]
    return step_kernel("byte_products:product", (*_OPERANDS, *more), isa=isa or host_isa(), result=result)
