"""Seeded draws as onnxruntime-genai makes them on a processor: which tokens may be drawn, with which shares, and by which numbers.

Its sampling is a few loops over float32 and the C++ library's ``partial_sort``, ``discrete_distribution`` and ``mt19937``
(``src/sampling_distribution.h`` of microsoft/onnxruntime-genai). Shares depend on sorted logits alone, so these are all that is
computed here; which of equal logits is meant is looked up afterwards, in the rare draw that hits such.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from onnxgen.graph.cpu.heap_order import prepare_heap_order, put_best_first

Row = npt.NDArray[np.float32]

_FIRST_RUN, _GROWTH = 16, 4
"""The nucleus is looked for among so many of the best tokens, then among so many times as many."""
_EXACT_VOCAB = 64
"""With so many tokens or fewer, its size is counted on the whole."""
_SOME, _DEPTH = 64, 16
"""So many of the best logits are looked at first, then those down to so many temperatures below the best."""
_BLOCK = 256
_NUMBERS = 256
_COLDEST, _HOTTEST = 1e-30, 1e30
"""Temperatures beyond have no inverse in float32, and change nothing more."""
_BELOW_1, _SINGLE_BELOW_1 = np.nextafter(1.0, 0.0), np.nextafter(np.float32(1), np.float32(0))


class MersenneUniforms:
    """The numbers in [0, 1) that a seeded generator of onnxruntime-genai draws, by the words of 32 bits that they are made of.

    These are what GNU's C++ library makes of ``mt19937``.

    Args:
        seed: 0 to 2**64 - 1. Those from 2**32 on, which onnxruntime-genai does not take, seed the twister by two words.
    """

    def __init__(self, seed: int) -> None:
        self._source = np.random.RandomState(seed if seed < 2**32 else [seed & 0xFFFFFFFF, seed >> 32])
        self._words = np.empty(0, np.uint32)

    def double(self, at: int) -> float:
        """``generate_canonical<double, 53>`` of words ``at`` and ``at + 1``, the first one the lower."""
        low, high = self._some(at, 2)
        return min((float(low) + float(high) * 2.0**32) / 2.0**64, float(_BELOW_1))

    def single(self, at: int) -> np.float32:
        """``generate_canonical<float, 24>`` of word ``at``."""
        (word,) = self._some(at, 1)
        return min(np.float32(word) / np.float32(2**32), _SINGLE_BELOW_1)

    def _some(self, at: int, count: int) -> npt.NDArray[np.uint32]:
        while at + count > len(self._words):
            more = self._source.randint(0, 2**32, size=_NUMBERS, dtype=np.uint32)
            self._words = np.append(self._words, more)
        return self._words[at : at + count]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Tokens that may be drawn from a row, best first.

    Attributes:
        row: The logits, float32 ``[vocab]``.
        values: The candidates' logits, float32 ``[candidates]``, descending.
        shares: Their probabilities, float32 ``[candidates]``.
        runs: Places up to which onnxruntime-genai sorts tokens, one run after the other: what decides among equal ones.
    """

    row: Row
    values: Row
    shares: Row
    runs: tuple[int, ...]

    def pick(self, number: float) -> int:
        """The token that a number in [0, 1) means."""
        return self.token(_place(self.shares, number))

    def share(self, token: int) -> np.float32:
        """Probability of a token; 0 for those that cannot be drawn."""
        at = np.flatnonzero(self.ids() == token)
        return np.float32(self.shares[at[0]] if len(at) else 0)

    def pick_beyond(self, other: Candidates, number: float) -> int:
        """The token that a number means among those that are more likely here than in ``other``, by how much they are.

        Where none is, it is drawn as by `pick`.
        """
        ids = self.ids()
        shares_there = dict(zip(other.ids().tolist(), other.shares, strict=True))
        there = np.array([shares_there.get(token, 0) for token in ids.tolist()], np.float32)
        beyond = np.maximum(self.shares - there, np.float32(0))
        return int(ids[_place(beyond if beyond.any() else self.shares, number)])

    def ids(self) -> npt.NDArray[np.int64]:
        """The candidates' tokens, int64 ``[candidates]``, best first."""
        some = np.flatnonzero(self.row >= self.values[-1])
        if len(some) == len(self.values) and (self.values[1:] < self.values[:-1]).all():
            return some[np.argsort(-self.row[some])]
        return self._sorted(len(self.values))[: len(self.values)].astype(np.int64)

    def token(self, place: int) -> int:
        """The token at a place of the order."""
        equal = np.flatnonzero(self.row == self.values[place])
        if len(equal) == 1:
            return int(equal[0])
        return int(self._sorted(place + 1)[place])

    def _sorted(self, count: int) -> npt.NDArray[np.int32]:
        """All tokens, of which the first ``count`` are where onnxruntime-genai has them."""
        order = np.arange(len(self.row), dtype=np.int32)
        first = 0
        for last in self.runs:
            put_best_first(self.row, order, first=first, last=last)
            if count <= last:  # what comes after moves nothing before
                break
            first = last
        return order


def prepare() -> None:
    """Load or compile what draws among equal logits need: some seconds, once on a machine."""
    prepare_heap_order()


def _place(shares: Row, number: float) -> int:
    """Where a number in [0, 1) falls among shares, as ``discrete_distribution`` has it."""
    wide = shares.astype(np.float64)
    reached = np.cumsum(wide / np.cumsum(wide)[-1])
    # the last place takes what rounding leaves, but no token without a share is drawn
    return min(int(np.searchsorted(reached[:-1], number)), int(np.flatnonzero(wide)[-1]))


def best_of(row: Row, top_k: int, *, top_p: float, temperature: float) -> Candidates:
    """The ``top_k`` best tokens, and of these the ones that together reach a share of ``top_p``; 0 and 1 are off."""
    top_k = min(top_k, len(row))
    values = _best_values(row, top_k)[:top_k]
    shares = _weights(values, values[0], temperature)
    shares /= np.cumsum(shares)[-1]
    kept = top_k
    if 0 < top_p < 1:
        enough = np.cumsum(shares) >= np.float32(top_p)
        kept = int(enough.argmax()) + 1 if enough.any() else top_k
    return Candidates(row, values[:kept], _normalized(shares[:kept]), (top_k,))


def nucleus_of(row: Row, *, top_p: float, temperature: float) -> Candidates:
    """The best tokens that together reach a share of ``top_p``, by a bound on what all others can weigh."""
    vocab, share = len(row), np.float32(top_p)
    for values in _longer_and_longer(row, temperature):
        weights = _weights(values, values[0], temperature)
        kept = _nucleus_size(weights, vocab, share)
        if kept is not None:
            return Candidates(row, values[:kept], _normalized(weights[:kept]), _runs_to(kept, vocab))
    raise AssertionError("all tokens together are a nucleus")


def _nucleus_size(weights: Row, vocab: int, share: np.float32) -> int | None:
    """How many of the best tokens are kept; None if that cannot be told from the weights of these few."""
    reached = np.cumsum(weights)
    if vocab <= _EXACT_VOCAB:
        enough = reached >= share * reached[-1]
        return int(enough.argmax()) + 1 if enough.any() else vocab
    others = np.arange(vocab - 1, vocab - 1 - len(weights), -1).astype(np.float32) * weights
    enough = reached >= share * (reached + others)
    # a nucleus that ends where a run ends goes unnoticed until the next run
    enough[[last - 1 for last in _runs(vocab) if last <= len(weights) and last < vocab]] = False
    if enough.any():
        return int(enough.argmax()) + 1
    return vocab if len(weights) == vocab else None


def _normalized(weights: Row) -> Row:
    return weights * (np.float32(1) / np.cumsum(weights)[-1])


def _weights(values: Row, highest: np.float32, temperature: float) -> Row:
    inverse = np.float32(1) / np.float32(min(max(temperature, _COLDEST), _HOTTEST))
    with np.errstate(over="ignore", under="ignore"):
        scaled = (values - highest) * inverse
        # in float64 and rounded once, as the C library's float32 function is
        return np.exp(scaled.astype(np.float64)).astype(np.float32)


@cache
def _runs(vocab: int) -> tuple[int, ...]:
    lasts = [min(_FIRST_RUN, vocab)]
    while lasts[-1] < vocab:
        lasts.append(min(lasts[-1] * _GROWTH, vocab))
    return tuple(lasts)


def _runs_to(size: int, vocab: int) -> tuple[int, ...]:
    """The runs that are sorted until a nucleus of ``size`` is found."""
    runs = _runs(vocab)
    return runs if vocab <= _EXACT_VOCAB else runs[: 1 + next(i for i, n in enumerate(runs) if n >= size)]


def _longer_and_longer(row: Row, temperature: float) -> Iterator[Row]:
    """The best logits, descending: some, more, all."""
    if len(row) > _SOME:
        some = _best_values(row, _SOME)
        yield some
        # those further down rarely make up a nucleus
        deep = row >= some[0] - np.float32(min(_DEPTH * temperature, _HOTTEST))
        if _SOME < np.count_nonzero(deep) < len(row) / 4:
            yield np.sort(row[deep])[::-1]
    yield np.sort(row)[::-1]


def _best_values(row: Row, count: int) -> Row:
    """At least the ``count`` best logits, descending."""
    whole = len(row) - len(row) % _BLOCK
    if count * _BLOCK > whole:
        best = row if count == len(row) else np.partition(row, len(row) - count)[len(row) - count :]
    else:
        # so many blocks hold a logit from here on
        maxima = np.sort(row[:whole].reshape(-1, _BLOCK).max(axis=1))
        best = row[row >= maxima[len(maxima) - count]]
    return np.sort(best)[::-1]
