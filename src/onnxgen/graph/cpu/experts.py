"""Mixtures of experts: tokens are sorted by expert, so that each expert multiplies all of its own at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from onnxgen.graph.cpu.expert_activation import ExpertActivation
from onnxgen.graph.cpu.expert_blocks import StackedBlocks, TableOfExperts
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
        blocks: The same as one stack, if it is one of blocks.
    """

    def __init__(
        self,
        products: Sequence[Multiply],
        outputs: int,
        bias: np.ndarray | None,
        blocks: StackedBlocks | None = None,
    ) -> None:
        self._products, self.outputs, self._bias, self.blocks = products, outputs, bias, blocks

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
        activation: From these to what the second projection takes.
        second: The other projection.
    """

    first: Sequence[Projection]
    activation: ExpertActivation
    second: Projection

    def table(self) -> TableOfExperts | None:
        """All of it as one table of calls; None where experts are of another kind."""
        stacks = [
            layer.blocks if isinstance(layer, PackedExperts) else None for layer in (*self.first, self.second)
        ]
        found = [each for each in stacks if each is not None]
        if len(found) < len(stacks) or any(each.quantize != found[0].quantize for each in found[:-1]):
            return None
        return TableOfExperts(found[:-1], self.activation, found[-1], _MIX)


class Mixture:
    """The experts' results for each token, mixed. May be used from several threads.

    Args:
        k: Experts of a token.
        normalize: Whether the shares of chosen experts add up to 1.
    """

    def __init__(self, k: int, *, normalize: bool) -> None:
        self._k, self._normalize = k, normalize
        self._route, self._mix = NodeCalls(_ROUTE), NodeCalls(_MIX)

    def run(
        self,
        x: np.ndarray,
        scores: np.ndarray,
        mixing: np.ndarray | None,
        experts: Experts,
        table: TableOfExperts | None = None,
    ) -> np.ndarray:
        """float32 ``[tokens, outputs]``.

        Args:
            x: float32 ``[tokens, inputs]``, C-contiguous.
            scores: float32 ``[tokens, experts]``, C-contiguous: which experts are best.
            mixing: The same: what they count for; None for the softmax of scores.
            experts: What tokens go through.
            table: The same as a table, where there is one.
        """
        tokens, k = len(x), self._k
        chosen, shares = np.empty((tokens, k), np.int64), np.empty((tokens, k), np.float32)
        routes = (
            *(scores.ctypes.data, tokens, scores.shape[1], 0 if mixing is None else mixing.ctypes.data),
            *(int(self._normalize), k, chosen.ctypes.data, shares.ctypes.data),
        )
        self._route.run((routes,), (tokens,), seconds=scores.size * k / _SCORES_PER_S)
        y = np.empty((tokens, experts.second.outputs), np.float32)
        if not tokens:
            return y
        order = np.argsort(chosen, axis=None, kind="stable")
        places = np.empty_like(chosen)
        places.reshape(-1)[order] = np.arange(order.size)
        by_expert = chosen.reshape(-1)[order]
        edges = np.concatenate([[0], np.flatnonzero(np.diff(by_expert)) + 1, [order.size]])
        given, groups = x.take(order // k, axis=0), by_expert[edges[:-1]]
        mixed = places.ctypes.data, shares.ctypes.data, k, tokens
        if table is not None:
            table.run(given, groups, edges, mixed, y)
            return y
        returned = _returned(given, experts, groups.tolist(), edges.tolist())
        arguments = returned.ctypes.data, returned.shape[1], *mixed, y.ctypes.data
        self._mix.run((arguments,), (tokens,), seconds=returned.size / _FLOATS_PER_S)
        return y


def _returned(x: np.ndarray, experts: Experts, groups: list[int], edges: list[int]) -> np.ndarray:
    """Results of rows that are sorted by expert, those of each expert between two edges."""
    hidden = np.empty((len(x), sum(layer.outputs for layer in experts.first)), np.float32)
    returned = np.empty((len(x), experts.second.outputs), np.float32)
    rows_of = [slice(*pair) for pair in itertools.pairwise(edges)]
    for expert, rows in zip(groups, rows_of, strict=True):
        column = 0
        for layer in experts.first:
            layer.into(x[rows], hidden[rows, column : column + layer.outputs], expert)
            column += layer.outputs
    inner = experts.activation.of(hidden)
    for expert, rows in zip(groups, rows_of, strict=True):
        experts.second.into(inner[rows], returned[rows], expert)
    return returned


_ROUTE = step_kernel(
    "expert_routes:route", ("scores", "tokens", "experts", "mixing", "normalize", "k", "chosen", "shares")
)
_MIX = step_kernel("expert_routes:mix", ("returned", "width", "places", "shares", "k", "tokens", "y"))
