"""The step kernel behind log probabilities: a row's weight, a token's rank in it, and the best tokens."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.descending import allowed_from, best_items
from onnxgen.graph.cpu.compiled.draw_orders import BLOCK, ITEM_PLACES
from onnxgen.graph.cpu.compiled.function import leaf
from onnxgen.graph.cpu.compiled.kernel import doubles, floats, ints64, word
from onnxgen.graph.cpu.compiled.lane_floats import if_from, load_first, splat, sum_of
from onnxgen.graph.cpu.compiled.row_blocks import note_maxima, note_sums
from onnxgen.graph.cpu.compiled.vector_math import LANES

_LOWEST, _HIGHEST = np.float32(-np.inf), np.float32(np.inf)
_ZERO, _ONE = np.float32(0), np.float32(1)


def log_probabilities() -> Callable[[int, int, int, int, int], None]:
    """For each row what its log probabilities are made of.

    Words:

        1       rows: index of the header's word that counts them
        2       width
        3       addresses: int64 [rows], of float32 [width]
        4       tokens: int64 [rows]
        5       tops: int64 [rows]: how many of the best are wanted
        6       most: columns for them
        7       highest: float64 [rows]: the largest logit; NaN or infinite where the row is broken, which has nothing else
        8       totals: float64 [rows]: the sum of exp(logit - highest)
        9       ranks: int64 [rows]: how many tokens are better than the given one, of equal ones those of lower ids
        10      found: int64 [rows]: how many of the best there are; none that is forbidden
        11      ids: int64 [rows, most]
        12      logits: float32 [rows, most]
        13      maxima: float32 [parts, blocks], to work with, as all that follow
        14      sums: float64 [parts, blocks]
        15, 16  items, spare: int64 [parts, width]
    """

    def kernel(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        rows, width, most = word(step, word(row, 1)), word(row, 2), word(row, 6)
        blocks = (width + BLOCK - 1) // BLOCK
        maxima, sums = word(row, 13) + 4 * part * blocks, word(row, 14) + 8 * part * blocks
        items, spare = word(row, 15) + 8 * part * width, word(row, 16) + 8 * part * width
        ranks, found = ints64(word(row, 9), rows), ints64(word(row, 10), rows)
        for r in range(part, rows, parts):
            x = ints64(word(row, 3), rows)[r]
            highest = note_maxima(x, width, maxima)
            doubles(word(row, 7), rows)[r] = highest
            found[r] = 0
            if not (highest > _LOWEST and highest < _HIGHEST):
                continue
            doubles(word(row, 8), rows)[r] = note_sums(x, width, highest, _ONE, _ZERO, sums)
            ranks[r] = _num_better(x, width, ints64(word(row, 4), rows)[r])
            top = min(ints64(word(row, 5), rows)[r], width)
            if top > 0:
                best = best_items(
                    x, width, maxima, highest, _ONE, top, allowed_from(highest), items, spare, scratch
                )
                ids, logits = ints64(word(row, 11), rows * most), floats(word(row, 12), rows * most)
                for i in range(best):
                    ids[r * most + i] = ints64(items, best)[i] & ITEM_PLACES
                    logits[r * most + i] = floats(x, width)[ids[r * most + i]]
                found[r] = best

    return kernel


@leaf
def _num_better(x: int, width: int, token: int) -> int:
    """How many floats are larger than that at a place, or equal and before it."""
    own: Any = floats(x, width)[token]
    better: Any = 0
    for first in range(0, token, BLOCK):
        end, a = min(token, first + BLOCK), splat(_ZERO)
        for i in range(first, end, LANES):
            # What stands for lanes beyond the end is no better.
            a += if_from(load_first(x + 4 * i, end - i, np.float32(np.nan)), own, _ONE)
        better += np.int64(sum_of(a))
    for first in range(token + 1, width, BLOCK):
        end, a = min(width, first + BLOCK), splat(_ZERO)
        for i in range(first, end, LANES):
            negated = splat(_ZERO) - load_first(x + 4 * i, end - i, np.float32(np.nan))
            a += if_from(negated, -own, _ONE)  # 1 for those that are not larger
        better += end - first - np.int64(sum_of(a))
    return better
