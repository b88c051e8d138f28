"""Mixtures of experts: tokens are sorted by expert, so that each expert multiplies all of its own at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from onnxgen.graph.cpu.step.kernel import step_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls

_SCORES_PER_S, _FLOATS_PER_S = 0.3e9, 1e9
"""Of one thread, roughly: to tell what is worth sharing."""


class Projection(Protocol):
    """One matrix of every expert."""

    outputs: int

    def into(self, x: np.ndarray, y: np.ndarray, expert: int) -> None:
        """``y = x @ matrix[expert].T + bias[expert]``.

        Args:
            x: float32 ``[rows, inputs]``, C-contiguous.
            y: float32 ``[rows, outputs]``; rows may be apart.
            expert: Which one.
        """
        ...


class Multiply(Protocol):
    """A product with one packed matrix, such as `BlockProducts`."""

    def multiply(self, x: np.ndarray, y: np.ndarray, bias: np.ndarray | None = None) -> None:
        """``y = x @ matrix + bias``."""
        ...


class PackedExperts:
    """A projection with packed matrices.

    Args:
        products: One for each expert.
        outputs: Columns of a product.
        bias: float32 ``[experts, outputs]``, C-contiguous, or None.
    """

    def __init__(self, products: Sequence[Multiply], outputs: int, bias: np.ndarray | None) -> None:
        self._products, self.outputs, self._bias = products, outputs, bias

    def into(self, x: np.ndarray, y: np.ndarray, expert: int) -> None:
        """See `Projection`."""
        self._products[expert].multiply(x, y, None if self._bias is None else self._bias[expert])


class LooseExperts:
    """A projection with matrices that are made when they are needed.

    Args:
        matrix: Of an expert: float32 ``[outputs, inputs]``.
        outputs: Rows of a matrix.
        bias: float32 ``[experts, outputs]``, or None.
    """

    def __init__(self, matrix: Callable[[int], np.ndarray], outputs: int, bias: np.ndarray | None) -> None:
        self._matrix, self.outputs, self._bias = matrix, outputs, bias

    def into(self, x: np.ndarray, y: np.ndarray, expert: int) -> None:
        """See `Projection`."""
        y[...] = x @ self._matrix(expert).T
        if self._bias is not None:
            y += self._bias[expert]


@dataclass(frozen=True, slots=True)
class Experts:
    """What a token goes through.

    Attributes:
        first: Projections whose results lie side by side, a gate before what it gates.
        activation: From these to what the second projection takes, C-contiguous.
        second: The other projection.
    """

    first: Sequence[Projection]
    activation: Callable[[np.ndarray], np.ndarray]
    second: Projection


class Mixture:
    """The experts' results for each token, mixed. May be used from several threads.

    Args:
        k: Experts of a token.
        normalize: Whether the shares of chosen experts add up to 1.
    """

    def __init__(self, k: int, *, normalize: bool) -> None:
        self._k, self._normalize = k, normalize
        self._route = NodeCalls(step_kernel("expert_routes:route", _ROUTE))
        self._mix = NodeCalls(step_kernel("expert_routes:mix", _MIX))

    def run(
        self, x: np.ndarray, scores: np.ndarray, mixing: np.ndarray | None, experts: Experts
    ) -> np.ndarray:
        """float32 ``[tokens, outputs]``.

        Args:
            x: float32 ``[tokens, inputs]``, C-contiguous.
            scores: float32 ``[tokens, experts]``, C-contiguous: which experts are best.
            mixing: The same: what they count for; None for the softmax of scores.
            experts: What tokens go through.
        """
        tokens, k = len(x), self._k
        chosen, shares = np.empty((tokens, k), np.int64), np.empty((tokens, k), np.float32)
        routes = (
            *(scores.ctypes.data, tokens, scores.shape[1], 0 if mixing is None else mixing.ctypes.data),
            *(int(self._normalize), k, chosen.ctypes.data, shares.ctypes.data),
        )
        self._route.run((routes,), (tokens,), seconds=scores.size * k / _SCORES_PER_S)
        order = np.argsort(chosen, axis=None, kind="stable")
        places = np.empty_like(chosen)
        places.reshape(-1)[order] = np.arange(order.size)
        groups = _groups(chosen.reshape(-1)[order])
        given = x.take(order // k, axis=0)
        hidden = np.empty((len(given), sum(layer.outputs for layer in experts.first)), np.float32)
        returned = np.empty((len(given), experts.second.outputs), np.float32)
        for expert, rows in groups:
            column = 0
            for layer in experts.first:
                layer.into(given[rows], hidden[rows, column : column + layer.outputs], expert)
                column += layer.outputs
        inner = experts.activation(hidden)
        for expert, rows in groups:
            experts.second.into(inner[rows], returned[rows], expert)
        y = np.empty((tokens, returned.shape[1]), np.float32)
        mixed = (
            *(returned.ctypes.data, returned.shape[1], places.ctypes.data, shares.ctypes.data),
            *(k, tokens, y.ctypes.data),
        )
        self._mix.run((mixed,), (tokens,), seconds=returned.size / _FLOATS_PER_S)
        return y


def _groups(chosen: np.ndarray) -> list[tuple[int, slice]]:
    """Experts that were chosen, and their rows among those sorted by expert."""
    if not len(chosen):
        return []
    edges = [0, *(np.flatnonzero(np.diff(chosen)) + 1).tolist(), len(chosen)]
    return [(int(chosen[start]), slice(start, stop)) for start, stop in itertools.pairwise(edges)]


_ROUTE = ("scores", "tokens", "experts", "mixing", "normalize", "k", "chosen", "shares")
_MIX = ("returned", "width", "places", "shares", "k", "tokens", "y")
