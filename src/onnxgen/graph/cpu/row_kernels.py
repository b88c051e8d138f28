"""Step kernels over rows of float32: embeddings, norms, element-wise functions, quantization.

Rows are ``[rows, width]`` float32; ``*_stride`` is the number of elements from one row to the next. ``rows`` names the word of
the header that counts them (`Header.TOKENS` or `Header.ROWS`). Quantized rows are three arrays:

    q      int8 or int16 [rows, q_stride]    columns padded with zeros to whole groups
    scale  float32       [rows, group_stride]
    total  int32         [rows, group_stride]   the sum of the group's q

What words mean is said where the kernels are: `compiled.row_norms`, `compiled.row_maps`, `compiled.row_gathers`.
"""

from __future__ import annotations

from typing import Literal

from onnxgen.graph.cpu.isa import Isa
from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel

RowFunction = Literal[
    "silu",
    "gelu",
    "gelu_tanh",
    "quick_gelu",
    "sigmoid",
    "tanh",
    "exp",
    "relu",
    "relu_squared",
    "soft_cap",
    "scale",
]
"""Functions of one element; ``amount`` is the slope of quick_gelu, the cap of soft_cap, the factor of scale."""

RowOperation = Literal["add", "sub", "mul"]
Integers = Literal["int8", "int16"]
Floats = Literal["float32", "float16", "bfloat16"]

_QUANTIZED = ("q", "q_stride", "scale", "group_stride", "total")
_FLOATS_PER_PART = 8192
_PIECE = 512
"""As `compiled.row_maps` cuts rows."""


def embed_kernel(elements: Floats, isa: Isa) -> StepKernel:
    """``y = table[token] * factor`` for the tokens of the header, which are known to be in the table."""
    arguments = ("width", "factor", "table", "table_stride", "y", "y_stride")
    return step_kernel("row_gathers:embed", arguments, elements=elements, isa=isa)


def given_rows_kernel() -> StepKernel:
    """``y[r] = embeds[i]`` for each row ``r`` whose embedding the header gives."""
    return step_kernel("row_gathers:given_rows", ("width", "y", "y_stride"))


def token_rows_kernel() -> StepKernel:
    """``y = x`` for the rows of all tokens that a word of the header has the address of, zeros where it is 0."""
    return step_kernel("row_gathers:token_rows", ("width", "header_word", "y", "y_stride"))


def wanted_rows_kernel() -> StepKernel:
    """``y[i] = x[r]`` for each row ``r`` whose logits are wanted."""
    return step_kernel("row_gathers:wanted_rows", ("width", "x", "x_stride", "y", "y_stride"))


def norm_kernel(
    *,
    centered: bool = False,
    bias: bool = False,
    skip: bool = False,
    skip_bias: bool = False,
    quantized: Integers | None = None,
    group: int = 32,
) -> StepKernel:
    """RMS normalization, or layer normalization where ``centered``.

    Args:
        centered: Whether the mean is subtracted.
        bias: Whether ``bias`` is added.
        skip: Whether x is first added to ``skip``, and that written to ``sum``.
        skip_bias: Whether ``skip_bias`` is added to that, too.
        quantized: Integers that are written.
        group: Of integers: 16, 32, or another multiple of 16.
    """
    arguments = (
        *("rows", "pieces", "width", "epsilon", "weight", "bias", "x", "x_stride", "y", "y_stride"),
        *("skip", "skip_stride", "skip_bias", "sum", "sum_stride"),
        *_QUANTIZED,
    )
    return step_kernel(
        "row_norms:norm",
        arguments,
        centered=centered,
        bias=bias,
        skip=skip,
        skip_bias=skip_bias,
        quantized=quantized,
        group=group,
    )


def unary_kernel(function: RowFunction) -> StepKernel:
    """``y = function(x, amount)``."""
    arguments = ("rows", "width", "amount", "x", "x_stride", "y", "y_stride")
    return step_kernel("row_maps:unary", arguments, function=function)


def binary_kernel(operation: RowOperation) -> StepKernel:
    """``y = x operation other``; an ``other_stride`` of 0 repeats one row."""
    arguments = ("rows", "width", "x", "x_stride", "other", "other_stride", "y", "y_stride")
    return step_kernel("row_maps:binary", arguments, operation=operation)


def gated_kernel(function: RowFunction, *, quantized: Integers | None = None, group: int = 32) -> StepKernel:
    """``y = function(gate, amount) * up``, and its integers where they are wanted."""
    arguments = (
        *("rows", "width", "amount", "gate", "gate_stride", "up", "up_stride", "y", "y_stride"),
        *_QUANTIZED,
    )
    return step_kernel("row_maps:gated", arguments, function=function, quantized=quantized, group=group)


def quantize_kernel(elements: Integers, group: int = 32) -> StepKernel:
    """Rows as integers."""
    arguments = ("rows", "width", "x", "x_stride", *_QUANTIZED)
    return step_kernel("row_maps:quantize_rows", arguments, elements=elements, group=group)


def parts_of_rows(rows: int, width: int) -> int:
    """Parts for kernels that take whole rows: norms and gathers."""
    return max(1, min(rows, rows * width // _FLOATS_PER_PART))


def parts_of_elements(rows: int, width: int) -> int:
    """Parts for the others, which may cut a row."""
    return max(1, min(rows * -(-width // _PIECE), rows * width // _FLOATS_PER_PART))
