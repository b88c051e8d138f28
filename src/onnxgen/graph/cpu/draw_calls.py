"""Calls of the kernels that draw tokens: plainly, and through filters or Mirostat.

They are two, so that the first, which is all that most need, is compiled soon.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from onnxgen.graph.cpu.compiled.draw_orders import BLOCK, Narrowing, Order
from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls, cores, workspace

_ROWS = int(Header.TOKENS)
_COMPARED_PER_S = 16e9
"""Elements of one thread, roughly."""
_LANES = 16


def draw_kernels() -> list[StepKernel]:
    """The kernels behind this module."""
    return [_plain_kernel(), _narrowed_kernel()]


def draw_plainly(orders: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of rows that temperature, top-k and top-p narrow at most.

    Args:
        orders: int64 ``[rows, ORDER_WORDS]``, see `onnxgen.graph.cpu.compiled.draw_orders`.
        width: Of each row.

    Returns:
        Tokens int64 ``[rows]``, -1 for broken rows; and ends int64 ``[rows]``: of rows with top-k or top-p the item of the last
        token that could have been drawn (`onnxgen.graph.cpu.compiled.candidate_items`).
    """
    rows = len(orders)
    parts, blocks, room = min(rows, cores()), -(-width // BLOCK), -(-width // _LANES) * _LANES
    tokens, ends = np.empty((2, rows), np.int64)
    masked = 4 * room if orders[:, Order.MASK].any() else 0
    work = workspace().addresses(
        *(
            parts * size
            for size in (4 * blocks, 8 * blocks, 8 * width, 8 * width, 8 * width, 4 * room, masked)
        )
    )
    drawn = np.count_nonzero(orders[:, Order.BY])
    _plain().run(
        [(_ROWS, width, orders.ctypes.data, tokens.ctypes.data, ends.ctypes.data, *work)],
        [parts],
        seconds=(rows + 3 * drawn) * width / _COMPARED_PER_S,
        rows=rows,
    )
    return tokens, ends


def draw_narrowed(orders: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of rows that filters or Mirostat narrow, none of which takes the best.

    Returns:
        Tokens int64 ``[rows]``, -1 for broken rows; and float64 ``[rows]``: of rows that Mirostat narrows, the token's share of
        the row's weight, NaN of others and of broken ones.
    """
    tokens, shares = np.empty(len(orders), np.int64), np.empty(len(orders))
    _run_narrowed(orders, width, tokens, shares)
    return tokens, shares


def zipf_exponents(orders: np.ndarray, width: int) -> list[float]:
    """The exponents of Zipf's law that rows' best tokens follow; NaN where there are no two, or the row is broken."""
    asked, exponents = orders.copy(), np.empty(len(orders))
    asked[:, Order.NARROWING] = Narrowing.ZIPF
    _run_narrowed(asked, width, np.empty(len(orders), np.int64), exponents)
    return exponents.tolist()


def left_of(orders: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """What filters or Mirostat leave of one row: ids int64 ``[left]`` and weights float32 ``[left]``; nothing of a broken one."""
    count, ids, weights = np.empty(1, np.int64), np.empty(width, np.int64), np.empty(width, np.float32)
    _run_narrowed(orders, width, count, np.empty(1), ids.ctypes.data, weights.ctypes.data)
    return ids[: count[0]], weights[: count[0]]


def _run_narrowed(
    orders: np.ndarray, width: int, tokens: np.ndarray, figures: np.ndarray, ids: int = 0, weights: int = 0
) -> None:
    rows = len(orders)
    parts, blocks, room = min(rows, cores()), -(-width // BLOCK), -(-width // _LANES) * _LANES
    masked = 4 * room if orders[:, Order.MASK].any() else 0
    *work, masked_rows = workspace().addresses(
        *(
            parts * size
            for size in (4 * blocks, 8 * blocks, 8 * width, 8 * width, 4 * blocks, 12 * room, masked)
        )
    )
    addresses = (array.ctypes.data for array in (orders, tokens, figures))
    _narrowed().run(
        [(_ROWS, width, *addresses, *work, ids, weights, masked_rows)],
        [parts],
        seconds=4 * rows * width / _COMPARED_PER_S,
        rows=rows,
    )


@cache
def _plain() -> NodeCalls:
    return NodeCalls(_plain_kernel())


@cache
def _narrowed() -> NodeCalls:
    return NodeCalls(_narrowed_kernel())


def _plain_kernel() -> StepKernel:
    arguments = "rows width orders tokens ends maxima sums items spare reached weighed masked"
    return step_kernel("drawing:draw", arguments.split())


def _narrowed_kernel() -> StepKernel:
    arguments = (
        "rows width orders tokens figures maxima sums items spare left_maxima values ids weights masked"
    )
    return step_kernel("narrowed_drawing:draw_narrowed", arguments.split())
