"""The step kernel of resizing planes to the nearest elements, for elements of any type of 1, 2, 4 or 8 bytes."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

from onnxgen.graph.cpu.compiled.kernel import bytes8, ints32, ints64, word, words16

_VIEWS = {1: bytes8, 2: words16, 4: ints32, 8: ints64}


def nearest_rows(*, element_bytes: int) -> Callable[[int, int, int, int, int], None]:
    """``y[p, i, j] = x[p, rows[i], columns[j]]``; parts are any split of the planes.

    Words:

        1, 2, 3, 4   x ``[planes, height, width]``; planes, height, width
        5, 6, 7      y ``[planes, out height, out width]``; out height, out width
        8, 9         rows, columns: int64, inside of x
    """
    view = _VIEWS[element_bytes]

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        planes, height, width = word(row, 2), word(row, 3), word(row, 4)
        out_height, out_width = word(row, 6), word(row, 7)
        rows, columns = ints64(word(row, 8), out_height), ints64(word(row, 9), out_width)
        for plane in range(planes * part // parts, planes * (part + 1) // parts):
            for i in range(out_height):
                line = view(word(row, 5) + element_bytes * (plane * out_height + i) * out_width, out_width)
                if i > 0 and rows[i] == rows[i - 1]:
                    before = view(
                        word(row, 5) + element_bytes * (plane * out_height + i - 1) * out_width, out_width
                    )
                    for j in range(out_width):
                        line[j] = before[j]
                    continue
                source = view(word(row, 1) + element_bytes * (plane * height + rows[i]) * width, width)
                for j in range(out_width):
                    line[j] = source[columns[j]]

    return kernel
