"""Which tokens may be drawn from logits by definition, in float64: filters one after the other, and Mirostat."""

import math

import numpy as np

from drawn_tokens import NOTHING_BETWEEN, within_bounds

FORBIDDEN = -1e20


class Narrowed:
    """Tokens that are left, from the best downwards, of equal logits the lower id first.

    Attributes:
        ids: Which.
        logits: Theirs, divided by the temperature.
        margin: How near, in shares, any decision so far was to falling otherwise.
    """

    def __init__(self, row, temperature):
        logits = row.astype(np.float64) / within_bounds(temperature)
        self.ids = np.argsort(-row, kind="stable")
        self.logits = logits[self.ids]
        self.margin = 1.0
        self.ranked = self.logits[row[self.ids] > FORBIDDEN]
        self.keep(self.logits - self.logits[0] > -87)

    @property
    def shares(self):
        weights = np.exp(self.logits - self.logits.max())
        return weights / weights.sum()

    def keep(self, kept, *distances):
        for distance in distances:
            self.margin = min(self.margin, np.abs(distance).min(initial=1.0))
        self.ids, self.logits = self.ids[kept], self.logits[kept]

    def keep_share(self, order, share):
        """The first in an order that together have a share, and one at least."""
        reached = np.cumsum(self.shares[order])
        size = min(int(np.searchsorted(reached, share)) + 1, len(order))
        self.keep(np.sort(order[:size]), reached - share)

    def keep_from(self, share):
        """Those of at least a share; or the best."""
        shares = self.shares
        limit = min(share, shares.max())
        other = shares < shares.max()
        self.keep(shares >= limit, shares[other] / limit - 1)

    def top_n_sigma(self, row, sigmas, temperature):
        allowed = row[row > FORBIDDEN].astype(np.float64)
        cut = (row.max() - sigmas * allowed.std()) / temperature
        self.keep((self.logits >= cut) | (self.logits == self.logits.max()), self.logits - cut)

    def typical(self, share):
        shares = self.shares
        surprise = -np.log(shares)
        distance = np.abs(surprise - (shares * surprise).sum())
        order = np.argsort(distance, kind="stable")
        steps = np.diff(distance[order])
        reached = np.cumsum(shares[order])
        size = int(np.searchsorted(reached, share)) + 1
        if size < len(order) and self.logits[order[size - 1]] != self.logits[order[size]]:
            self.margin = min(self.margin, steps[size - 1])
        self.keep_share(order, share)

    def exclude_top_choices(self, threshold):
        shares = self.shares
        above = np.flatnonzero(shares >= threshold)
        self.keep(np.delete(np.arange(len(shares)), above[:-1]), shares - threshold)

    def mirostat(self, version, mu, vocab):
        shares = self.shares
        if version == 2:
            # A surprise of more than ``mu`` bits is a share of less than 2 ** -mu.
            self.keep_from(2.0**-mu)
            return
        count = min(100, len(self.ranked))
        if count < 2:
            return
        t = np.log((np.arange(count - 1) + 2) / (np.arange(count - 1) + 1))
        b = self.ranked[: count - 1] - self.ranked[1:count]
        s = (t * b).sum() / (t * t).sum()
        with np.errstate(all="ignore"):
            k = np.float64((s - 1) * 2.0**mu / (1 - float(vocab) ** -(s - 1))) ** (1 / s)
        if k < vocab:
            self.keep(np.arange(len(shares)) < max(int(k), 1), k - round(k))


def excludes(draw):
    """Whether XTC excludes at the position of a draw."""
    generator = np.random.Philox(key=draw.seed | (draw.stream << 64), counter=[draw.position, 1, 0, 0])
    return (int(generator.random_raw()) >> 11) * 2.0**-53 < draw.xtc_probability


def narrowed(row, draw):
    """By definition: ids from the best downwards, their shares, and the margin."""
    left = Narrowed(row, draw.temperature)
    if draw.mirostat:
        left.mirostat(draw.mirostat, draw.mirostat_mu, len(row))
        return left.ids, left.shares, left.margin
    if draw.top_n_sigma:
        left.top_n_sigma(row, draw.top_n_sigma, draw.temperature)
    if 0 < draw.top_k < len(row):
        left.keep(np.arange(len(left.ids)) < draw.top_k)
    if draw.typical_p < 1:
        left.typical(draw.typical_p)
    if draw.top_p < 1:
        left.keep_share(np.arange(len(left.ids)), draw.top_p)
    if draw.min_p:
        left.keep_from(draw.min_p * left.shares.max())
    if draw.top_a:
        left.keep_from(draw.top_a * left.shares.max() ** 2)
    if draw.xtc_probability and excludes(draw):
        left.exclude_top_choices(draw.xtc_threshold)
    return left.ids, left.shares, left.margin


def surprise(row, temperature, token):
    """Of a token in bits, in the row as it is."""
    logits = row.astype(np.float64) / temperature
    return (math.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[token]) / math.log(2)


CERTAIN = 20 * NOTHING_BETWEEN
"""A margin that leaves rounding nothing to decide."""
