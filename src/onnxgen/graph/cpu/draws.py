"""Choosing a token for each of some rows of logits, compiled: the best, or one drawn by temperature, top-k and top-p."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.foundations.cpuinfo import default_threads
from onnxgen.graph.cpu.compiled.draw_orders import BLOCK, ORDER_WORDS, PACKED_ORDER
from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.step.code_store import default_store
from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls, workspace

_ROWS = int(Header.TOKENS)
_COMPARED_PER_S = 16e9
"""Elements of one thread, roughly."""

_COLDEST, _HOTTEST = 1e-15, 1e12
"""Temperatures beyond change no float32 weight of logits that a model gives."""


@dataclass(frozen=True, slots=True)
class Draw:
    """How a row's token is chosen.

    Attributes:
        temperature: Divides the logits; 0 takes the best token.
        top_k: Only so many of the best may be drawn; 0, or more than there are, is off.
        top_p: Only the best that together reach this share may be drawn, of what ``top_k`` left; 1 is off.
        seed: With ``stream`` and ``position``, the random number: 0 to 2**64 - 1.
        stream: Likewise.
        position: Likewise.
        top_n_sigma: Only logits within so many of the row's standard deviations below the best may be drawn; 0 is off.
        typical_p: Only tokens whose surprise is nearest to the expected one, together of this share; 1 is off.
        min_p: Only tokens at least this many times as likely as the best; 0 is off.
        top_a: Only tokens of at least this many times the square of the best one's probability; 0 is off.
        xtc_probability: How often all tokens from ``xtc_threshold`` on, but the least likely of them, may not be drawn.
        xtc_threshold: A probability.
        mirostat: Which version of Mirostat takes the place of all that narrows the choice; 0 is off.
        mirostat_mu: The largest surprise, in bits, that it allows at this position; the caller adapts it to what
            `draw_with_surprises` reports.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    stream: int = 0
    position: int = 0
    top_n_sigma: float = 0.0
    typical_p: float = 1.0
    min_p: float = 0.0
    top_a: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    mirostat: Literal[0, 1, 2] = 0
    mirostat_mu: float = 10.0


def prepare_draws() -> None:
    """Load the code, or compile it where this machine has none yet: some seconds, once."""
    default_store().prepare([_kernel()])
    _draw()


def draw_tokens(rows: Sequence[np.ndarray], draws: Sequence[Draw]) -> list[int]:
    """A token for each row, which depends on that row alone.

    Tokens are drawn from ``exp((x - max) / temperature)``, in float32 and summed in float64: by rising id with temperature
    alone, else from the best token downwards, of equal ones the lower id first. The drawn token is the first whose running
    sum passes the random number's share of the whole.

    Args:
        rows: Logits, each float32 ``[vocab]``, contiguous, of one length.
        draws: For each row.

    Returns:
        Token ids; -1 for rows that hold NaN, or whose largest logit is infinite.
    """
    if not rows:
        return []
    width = len(rows[0])
    orders = bytearray(8 * ORDER_WORDS * len(rows))
    drawn = 0
    for at, (row, draw) in enumerate(zip(rows, draws, strict=True)):
        assert row.dtype == np.float32 and row.shape == (width,) and row.flags.c_contiguous
        if (
            draw.mirostat
            or draw.top_n_sigma
            or draw.typical_p < 1
            or draw.min_p
            or draw.top_a
            or draw.xtc_probability
        ):
            raise KernelError(
                f"the kernel that draws tokens knows temperature, top_k and top_p only, not {draw}"
            )
        by, rest = _inverse(draw.temperature)
        top_k = draw.top_k if draw.top_k < width else 0
        if top_k == 1 or draw.top_p == 0:
            by = 0.0
        drawn += by != 0
        PACKED_ORDER.pack_into(
            orders,
            at * PACKED_ORDER.size,
            row.__array_interface__["data"][0],
            by,
            rest,
            top_k,
            draw.top_p,
            draw.seed,
            draw.stream,
            draw.position,
        )
    held, tokens = np.frombuffer(orders, np.int64), np.empty(len(rows), np.int64)
    parts, blocks = min(len(rows), _cores()), -(-width // BLOCK)
    maxima, sums, *candidates = workspace().addresses(
        *(parts * blocks * size for size in (4, 8)), *(parts * width * 8 for _ in range(3))
    )
    _draw().run(
        [(_ROWS, width, held.ctypes.data, tokens.ctypes.data, maxima, sums, *candidates)],
        [parts],
        seconds=(len(rows) + 3 * drawn) * width / _COMPARED_PER_S,
        rows=len(rows),
    )
    return tokens.tolist()


def draw_with_surprises(
    rows: Sequence[np.ndarray], draws: Sequence[Draw]
) -> tuple[list[int], list[float | None]]:
    """As `draw_tokens`, and how surprising the tokens are that Mirostat drew.

    Returns:
        Token ids, and for each ``-log2`` of its probability in bits, after temperature and before anything is cut off; None
        where Mirostat did not draw (it is off, the best token was asked for, or the row is broken).
    """
    return draw_tokens(rows, draws), [None] * len(rows)


@cache
def _draw() -> NodeCalls:
    return NodeCalls(_kernel())


def _kernel() -> StepKernel:
    arguments = ("rows", "width", "orders", "tokens", "maxima", "sums", "items", "spare", "reached")
    return step_kernel("drawing:draw", arguments)


@cache
def _cores() -> int:
    return default_threads()


@lru_cache(maxsize=256)
def _inverse(temperature: float) -> tuple[float, float]:
    """The inverse in two float32; 0 for a temperature of 0."""
    if temperature == 0:
        return 0.0, 0.0
    inverse = 1 / min(max(temperature, _COLDEST), _HOTTEST)
    high = float(np.float32(inverse))
    return high, inverse - high
