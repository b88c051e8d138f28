"""Words of the calls of these kernels in the table of a step: addresses, counts, strides in bytes between rows."""

from __future__ import annotations

PRODUCT = (
    "rows_word",
    "x",
    "scales",
    "sums",
    "x_stride",
    "scale_stride",
    "weights",
    "groups",
    "panels",
    "columns",
    "y",
    "y_stride",
    "bias",
    "further",
)
"""``y [rows, columns] = x * weights``.

    rows_word             the word of the step's header that counts rows
    x, scales, sums       quantized activations; scales and sums have one stride
    weights               a packed matrix: groups along the depth, panels, and columns that come out
    y                     float32
    bias                  float32, one for each column in the order of the panels; or 0
    further               1: the product is added to what is in y
"""

ROWS = (
    "rows_word",
    "ids_word",
    "weights",
    "panel_bytes",
    "columns",
    "depth",
    "y",
    "y_stride",
    "multiplier",
)
"""``y [rows, depth] = multiplier * column of the matrix``, for int64 ids at the address in a word of the step's header."""

PACK = (
    "codes",
    "scales",
    "zeros",
    "columns",
    "blocks",
    "zero_stride",
    "panels",
    "first_tile",
    "tile_step",
)
"""A matrix of ``MatMulNBits`` into panels.

    codes, scales, zeros  the matrix; bytes of a column's whole zero points are its stride
    columns, blocks       its shape
    panels                the packed matrix
    first_tile            what the first 16 columns become there
    tile_step             how many tiles further the next 16 go
"""
