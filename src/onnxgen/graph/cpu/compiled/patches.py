"""Gathering what the windows of a few columns see."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxgen.graph.cpu.compiled.function import address, inline
from onnxgen.graph.cpu.compiled.movers import mover
from onnxgen.graph.cpu.compiled.tile import TileShape

SIZE, KERNEL, STRIDE, DILATION, PAD, OUT = range(6)
"""Columns of a table of axes, int64 ``[3, 6]``: the last axis is the innermost, missing ones have one element."""

RUN_FIELDS = 6
"""A run: where its first window starts along each axis, its length, the panel and the column in it."""


@inline
def cut_into_runs(runs: Any, axes: Any, first: int, last: int, panel_columns: int) -> int:
    """Cut columns into runs of neighbours in one row of the output and one panel; returns how many there are."""
    width, height = axes[2, OUT], axes[1, OUT]
    count, column = 0, first
    while column < last:
        row, place = column // width, column % width
        lane = (column - first) % panel_columns
        length = min(width - place, last - column, panel_columns - lane)
        runs[count, 0] = row // height * axes[0, STRIDE] - axes[0, PAD]
        runs[count, 1] = row % height * axes[1, STRIDE] - axes[1, PAD]
        runs[count, 2] = place * axes[2, STRIDE] - axes[2, PAD]
        runs[count, 3] = length
        runs[count, 4] = (column - first) // panel_columns
        runs[count, 5] = lane
        count += 1
        column += length
    return count


def gatherer(shape: TileShape) -> Callable[..., None]:
    """The function ``gather`` for panels of that tile's columns."""
    panel_columns = shape.columns
    move = mover(shape, outside=0.0)

    @inline
    def gather(x: Any, panels: Any, runs: Any, count: int, axes: Any, start: int, stop: int) -> None:
        """Write ``panels [panels, stop - start, panel columns]`` from ``x [channels, size]``; zeros outside.

        ``start`` to ``stop`` counts channels, then elements of the kernel.
        """
        depth, height, width = axes[0, SIZE], axes[1, SIZE], axes[2, SIZE]
        kernel_z, kernel_y, kernel_x = axes[0, KERNEL], axes[1, KERNEL], axes[2, KERNEL]
        stride = axes[2, STRIDE]
        k_x = start % kernel_x
        k_y = start // kernel_x % kernel_y
        k_z = start // (kernel_x * kernel_y) % kernel_z
        channel = start // (kernel_x * kernel_y * kernel_z)
        for k in range(start, stop):
            plane = address(x) + 4 * channel * depth * height * width
            for r in range(count):
                length = runs[r, 3]
                target = address(panels) + 4 * (
                    (runs[r, 4] * (stop - start) + k - start) * panel_columns + runs[r, 5]
                )
                at_z = runs[r, 0] + k_z * axes[0, DILATION]
                at_y = runs[r, 1] + k_y * axes[1, DILATION]
                at_x = runs[r, 2] + k_x * axes[2, DILATION]
                outside = at_z < 0 or at_z >= depth or at_y < 0 or at_y >= height
                source = plane + 4 * ((at_z * height + at_y) * width + at_x)
                move(target, source, length, stride, -at_x, 0 if outside else width - at_x)
            k_x += 1
            if k_x == kernel_x:
                k_x = 0
                k_y += 1
                if k_y == kernel_y:
                    k_y = 0
                    k_z += 1
                    if k_z == kernel_z:
                        k_z = 0
                        channel += 1

    return gather
