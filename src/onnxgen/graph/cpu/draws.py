"""Choosing a token for each of some rows of logits, compiled: the best, or one drawn from what filters or Mirostat leave."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from onnxgen.graph.cpu.compiled.draw_orders import (
    ITEM_PLACES,
    ORDER_WORDS,
    PACKED_ORDER,
    Narrowing,
    Order,
)
from onnxgen.graph.cpu.draw_calls import (
    draw_narrowed,
    draw_plainly,
    left_of,
    zipf_exponents,
)
from onnxgen.graph.cpu.masked_rows import Mask, mask_address

Masks = Sequence[Mask | None]

_COLDEST, _HOTTEST = 1e-15, 1e12
"""Temperatures beyond change no float32 weight of logits that a model gives."""

_DEEPEST = 80.0
"""Temperatures below the best beyond which weights are near the smallest that there are."""


@dataclass(frozen=True, slots=True)
class Draw:
    """How a row's token is chosen.

    A temperature of 0, a ``top_k`` of 1 or a ``top_p`` of 0 takes the best token; nothing else is looked at then. Otherwise the
    row is narrowed in the order temperature, top-n-sigma, top-k, typical, top-p, min-p, top-a, XTC. Each looks at the
    probabilities of what those before it have left, renormalized, and leaves one token at least. Mirostat knows temperature
    alone.

    Attributes:
        temperature: Divides the logits; 0 takes the best token.
        top_k: Only so many of the best may be drawn; 0, or more than there are, is off.
        top_p: Only the best that together reach this share may be drawn; 1 is off.
        seed: With ``stream`` and ``position``, the random number: 0 to 2**64 - 1.
        stream: Likewise.
        position: Likewise.
        top_n_sigma: Only logits within so many standard deviations of the row's logits (forbidden ones left out) below the
            best may be drawn; 0 is off.
        typical_p: Only the tokens whose surprise is nearest to the expected one, as many as together reach this share; 1 is
            off.
        min_p: Only tokens at least this many times as likely as the best, 0 to 1; 0 is off.
        top_a: Only tokens of at least this many times the square of the best one's probability; 0 is off.
        xtc_probability: How often all tokens of at least ``xtc_threshold`` may not be drawn, but the least likely of them;
            a random number of its own decides.
        xtc_threshold: A probability.
        mirostat: Which version of Mirostat takes the place of all that narrows the choice; 0 is off.
        mirostat_mu: How surprising the token may be, in bits; the caller adapts it to what `draw_with_surprises` reports.
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

    @property
    def takes_best(self) -> bool:
        """Whether nothing is drawn."""
        return self.temperature == 0 or self.top_k == 1 or self.top_p == 0

    @property
    def narrowing(self) -> Narrowing:
        """What decides which tokens may be drawn."""
        if self.mirostat:
            return Narrowing.MIROSTAT if self.mirostat == 1 else Narrowing.MIROSTAT_2
        filtered = (
            self.min_p > 0
            or self.typical_p < 1
            or self.xtc_probability > 0
            or self.top_n_sigma > 0
            or self.top_a > 0
        )
        return Narrowing.FILTERS if filtered else Narrowing.PLAIN


def draw_tokens(rows: Sequence[np.ndarray], draws: Sequence[Draw], masks: Masks | None = None) -> list[int]:
    """A token for each row, which depends on that row alone.

    Tokens are drawn from ``exp((x - max) / temperature)``, in float32 and summed in float64: by rising id, or, with top-k, or
    top-p and no other filter, from the best token downwards, of equal ones the lower id first. The drawn token is the first
    whose running sum passes the random number's share of the whole. No weight is left below e ** -87.

    Args:
        rows: Logits, each float32 ``[vocab]``, contiguous, of one length.
        draws: For each row.
        masks: For each row the tokens that may be drawn: the others count as minus infinity. None: all may, in all rows.

    Returns:
        Token ids; -1 for rows that hold NaN, or whose largest logit is infinite.
    """
    return _draw(rows, draws, masks)[0].tolist() if rows else []


def draw_with_surprises(
    rows: Sequence[np.ndarray], draws: Sequence[Draw], masks: Masks | None = None
) -> tuple[list[int], list[float | None]]:
    """As `draw_tokens`, and how surprising the tokens are that Mirostat drew.

    Of version 1 the caller's next ``mirostat_mu`` is ``mu - eta * (surprise - tau)``, as of version 2; the first is ``2 * tau``.

    Returns:
        Token ids, and for each ``-log2`` of its probability in bits, after temperature and before anything is cut off, as in
        the paper (https://arxiv.org/abs/2007.14966); None where Mirostat did not draw (it is off, the best token was asked
        for, or the row is broken).
    """
    if not rows:
        return [], []
    tokens, shares = (drawn.tolist() for drawn in _draw(rows, draws, masks))
    return tokens, [None if math.isnan(share) else -math.log2(share) for share in shares]


def distribution(row: np.ndarray, draw: Draw) -> tuple[np.ndarray, np.ndarray]:
    """What `draw_tokens` draws a row's token from.

    Args:
        row: Logits, float32 ``[vocab]``, contiguous.
        draw: How. XTC excludes or does not, as it does at that position.

    Returns:
        Ids int64 ``[kept]`` in the order in which they are drawn, and their probabilities, float64 ``[kept]``; those that have
        none are left out. Empty for rows whose token is -1.
    """
    width, orders = len(row), _orders([row], [draw])
    plain = draw.takes_best or draw.narrowing is Narrowing.PLAIN
    end = None
    if plain:
        (token,), (end,) = draw_plainly(orders, width)
        if draw.takes_best or token < 0:
            certain = int(token >= 0)
            return np.full(certain, token), np.ones(certain)
        # No filter is on: these are all tokens that have any weight.
        orders[:, Order.NARROWING], orders[:, Order.TOP_K] = Narrowing.FILTERS, 0
        orders[:, Order.TOP_P : Order.TOP_P + 1].view(np.float64)[:] = 1.0
        if not (0 < draw.top_k < width or draw.top_p < 1):
            end = None
    if end is not None:
        orders[:, Order.MIN_P : Order.DEPTH + 1].view(np.float64)[:] = _reach_down_to(
            end, row, draw.temperature
        )
    ids, weights = left_of(orders, width)
    if end is not None:
        ids, weights = _until(end, row, ids, weights)
    shares = weights.astype(np.float64)
    shares /= shares.sum()
    return ids, shares


def _reach_down_to(end: int, row: np.ndarray, temperature: float) -> tuple[float, float]:
    """A min-p that, a little generously, leaves an item's token and all better ones, and how deep that is.

    So the others, which nobody wants, need not be weighed. Of a token that is next to impossible it is off.
    """
    depth = float(row.max() - row[end & ITEM_PLACES]) / max(temperature, _COLDEST) + 0.01
    least = math.exp(-depth)
    return (least, depth) if depth < _DEEPEST else (0.0, math.inf)


def _until(end: int, row: np.ndarray, ids: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of tokens by rising id those that are no worse than an item's, from the best downwards."""
    last = end & ITEM_PLACES
    logits = row[ids]
    kept = np.flatnonzero((logits > row[last]) | ((logits == row[last]) & (ids <= last)))
    kept = kept[np.argsort(-logits[kept], kind="stable")]
    return ids[kept], weights[kept]


def _draw(
    rows: Sequence[np.ndarray], draws: Sequence[Draw], masks: Masks | None
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens; and of those that Mirostat drew the share of the row's weight that they have, NaN of others."""
    width, orders = len(rows[0]), _orders(rows, draws, masks)
    narrowed = _are_narrowed(orders)
    if narrowed.all():
        return draw_narrowed(orders, width)
    shares = np.full(len(rows), np.nan)
    if not narrowed.any():
        return draw_plainly(orders, width)[0], shares
    tokens = np.empty(len(rows), np.int64)
    tokens[~narrowed] = draw_plainly(orders[~narrowed], width)[0]
    tokens[narrowed], shares[narrowed] = draw_narrowed(orders[narrowed], width)
    return tokens, shares


class RepeatedDraws:
    """The same draws for one row of logits after the other: what only place and position change is worked out once.

    Args:
        draws: For each row, none of Mirostat; their positions do not matter.
        width: Tokens that may be drawn.
    """

    def __init__(self, draws: Sequence[Draw], width: int) -> None:
        assert not any(draw.mirostat for draw in draws)
        self._width = width
        nowhere = np.empty(width, np.float32)
        self._orders = _orders([nowhere] * len(draws), draws).copy()
        narrowed = _are_narrowed(self._orders)
        self._draw = draw_narrowed if narrowed.any() else draw_plainly
        self._is_mixed = bool(narrowed.any() and not narrowed.all())
        self._takes_best = bool((self._orders[:, Order.BY] == 0).all())
        self._places = np.arange(len(draws), dtype=np.int64)

    @property
    def is_possible(self) -> bool:
        """Whether one kernel draws them all."""
        return not self._is_mixed

    @property
    def takes_best(self) -> bool:
        """Whether nothing is drawn, so that positions do not matter."""
        return self._takes_best

    def tokens(
        self, logits: np.ndarray, positions: Sequence[int] | None, masks: Masks | None = None
    ) -> list[int]:
        """A token for each row, as `draw_tokens` gives it.

        Args:
            logits: float32 ``[rows, at least width]``, contiguous.
            positions: For each row; None where nothing is drawn.
            masks: As there.
        """
        assert logits.dtype == np.float32 and logits.flags.c_contiguous
        assert len(logits) == len(self._places) and logits.shape[1] >= self._width
        orders = self._orders
        start, row_bytes = logits.__array_interface__["data"][0], 4 * logits.shape[1]
        orders[:, Order.ADDRESS] = start + row_bytes * self._places
        if positions is not None:
            orders[:, Order.POSITION] = positions
        orders[:, Order.MASK] = 0 if masks is None else [_address(mask, self._width) for mask in masks]
        return self._draw(orders, self._width)[0].tolist()


def _are_narrowed(orders: np.ndarray) -> np.ndarray:
    """Which rows filters or Mirostat narrow."""
    return (orders[:, Order.NARROWING] != Narrowing.PLAIN) & (orders[:, Order.BY] != 0)


def _orders(rows: Sequence[np.ndarray], draws: Sequence[Draw], masks: Masks | None = None) -> np.ndarray:
    """What the kernels are told: int64 ``[rows, ORDER_WORDS]``."""
    width, packed = len(rows[0]), bytearray(PACKED_ORDER.size * len(rows))
    ranked = list[int]()
    for at, (row, draw) in enumerate(zip(rows, draws, strict=True)):
        assert row.dtype == np.float32 and row.shape == (width,) and row.flags.c_contiguous
        by, rest = (0.0, 0.0) if draw.takes_best else _inverse(draw.temperature)
        narrowing = draw.narrowing
        if narrowing is Narrowing.MIROSTAT and by:
            ranked.append(at)
        PACKED_ORDER.pack_into(
            packed,
            at * PACKED_ORDER.size,
            row.__array_interface__["data"][0],
            by,
            rest,
            draw.top_k if draw.top_k < width else 0,
            draw.top_p,
            draw.seed,
            draw.stream,
            draw.position,
            narrowing,
            draw.top_n_sigma,
            draw.typical_p,
            draw.min_p,
            _depth(draw),
            draw.top_a,
            draw.xtc_probability,
            draw.xtc_threshold,
            2.0**-draw.mirostat_mu if narrowing is Narrowing.MIROSTAT_2 else 0.0,
            0 if masks is None else _address(masks[at], width),
        )
    orders = np.frombuffer(packed, np.int64).reshape(len(rows), ORDER_WORDS)
    if ranked:
        for at, exponent in zip(ranked, zipf_exponents(orders[ranked], width), strict=True):
            count = _num_unsurprising(exponent, draws[at].mirostat_mu, width)
            orders[at, Order.TOP_K] = count if count < width else 0
    return orders


def _depth(draw: Draw) -> float:
    """Temperatures below the best at which, a little generously, min-p cuts; infinite if it must be told later.

    Top-p keeps the best token and needs no others but for what they weigh, which is known of a whole row.
    """
    whole = draw.top_k == 0 and draw.top_n_sigma == 0
    if draw.min_p <= 0 or draw.typical_p < 1 or (draw.top_p < 1 and not whole):
        return math.inf
    return 0.01 - math.log(min(draw.min_p, 1.0))


def _num_unsurprising(exponent: float, mu: float, vocab: int) -> int:
    """How many of the best tokens have a mean surprise of ``mu`` bits, by Zipf's law (https://arxiv.org/abs/2007.14966, eq. 2)."""
    if math.isnan(exponent):
        return 1
    excess, most = exponent - 1, math.log(vocab)
    over = excess / -math.expm1(-excess * most) if excess else 1 / most
    power = math.log(over) + mu * math.log(2)
    if power <= 0:
        return 1
    return vocab if power >= exponent * most else max(1, int(math.exp(power / exponent)))


def _address(mask: Mask | None, width: int) -> int:
    return 0 if mask is None else mask_address(mask, width)


@lru_cache(maxsize=256)
def _inverse(temperature: float) -> tuple[float, float]:
    """The inverse of a temperature above 0 in two float32."""
    inverse = 1 / min(max(temperature, _COLDEST), _HOTTEST)
    high = float(np.float32(inverse))
    return high, inverse - high
