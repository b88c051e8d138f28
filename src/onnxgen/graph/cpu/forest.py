"""Decision trees as flat arrays, and the compiled walk through them."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.ep.node import NodeSpec

MODES = (
    "BRANCH_LEQ",
    "BRANCH_LT",
    "BRANCH_GTE",
    "BRANCH_GT",
    "BRANCH_EQ",
    "BRANCH_NEQ",
    "BRANCH_MEMBER",
    "LEAF",
)
"""Comparisons of a feature with a node's split, by number."""

LEAF = MODES.index("LEAF")
MEMBER = MODES.index("BRANCH_MEMBER")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""How the votes of all trees for one target are joined, by number."""


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees whose nodes are numbered together.

    Attributes:
        roots: ``[trees]`` node of each tree where a walk begins.
        feature: ``[nodes]`` the feature that is compared.
        split: ``[nodes]`` with what, float32 or float64.
        mode: ``[nodes]`` index into `MODES`.
        children: ``[nodes, 2]`` next node when the comparison is false, true.
        missing: ``[nodes]`` the outcome for NaN.
        members: Values of all set-membership nodes, one set after the other.
        member_ends: ``[nodes + 1]``: node ``n`` has members ``member_ends[n] : member_ends[n + 1]``.
        vote_ends: ``[nodes + 1]``, in the same way, of the votes of a leaf.
        targets: ``[votes]`` the class or target of a vote.
        weights: ``[votes]``, of the type of ``split``.
        num_targets: How many targets there are.
    """

    roots: np.ndarray
    feature: np.ndarray
    split: np.ndarray
    mode: np.ndarray
    children: np.ndarray
    missing: np.ndarray
    members: np.ndarray
    member_ends: np.ndarray
    vote_ends: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    num_targets: int

    def check_integrity(self, node: NodeSpec) -> None:
        """Refuse trees whose walk would leave the arrays or never end.

        Raises:
            InvalidGraphError: with what is wrong.
        """
        count = len(self.mode)
        if self.targets.size and not (self.targets.min() >= 0 and self.targets.max() < self.num_targets):
            raise InvalidGraphError(
                f"{node}: a vote is for target {self.targets.max()} of {self.num_targets}"
            )
        if self.feature.size and self.feature.min() < 0:
            raise InvalidGraphError(f"{node}: a node compares feature {self.feature.min()}")
        level = np.unique(self.roots)
        for _ in range(count + 1):
            inner = level[self.mode[level] != LEAF]
            if not inner.size:
                return
            level = np.unique(self.children[inner])
            if level[0] < 0 or level[-1] >= count:
                raise InvalidGraphError(f"{node}: a node's child is not among the {count} nodes")
        raise InvalidGraphError(f"{node}: a tree has a cycle")

    def votes(self, node: NodeSpec, x: np.ndarray, aggregate: str) -> tuple[np.ndarray, np.ndarray]:
        """Walk every tree with every row and join the votes.

        Args:
            node: For messages.
            x: ``[rows, features]``, of the type of ``split``.
            aggregate: One of `AGGREGATES`.

        Returns:
            Scores ``[rows, targets]``, of the type of ``split`` (as in ONNX Runtime, tree after tree, so that sums
            round as there), 0 where nobody voted, and whether anybody did.
        """
        needed = int(self.feature[self.mode != LEAF].max(initial=-1)) + 1
        if x.shape[1] < needed:
            raise KernelError(f"{node}: trees compare {needed} features, the input is of shape {x.shape}")
        scores = np.zeros((len(x), self.num_targets), self.split.dtype)
        voted = np.zeros(scores.shape, np.bool_)
        _walk()(
            np.ascontiguousarray(x),
            *(self.roots, self.feature, self.split, self.mode, self.children, self.missing),
            *(self.members, self.member_ends, self.vote_ends, self.targets, self.weights),
            AGGREGATES.index(aggregate),
            scores,
            voted,
        )
        if aggregate == "AVERAGE":
            scores /= max(1, len(self.roots))
        return scores, voted


@cache
def _walk() -> Callable[..., None]:
    import numba

    @numba.njit(cache=True, nogil=True)
    def walk(
        x: Any,
        roots: Any,
        feature: Any,
        split: Any,
        mode: Any,
        children: Any,
        missing: Any,
        members: Any,
        member_ends: Any,
        vote_ends: Any,
        targets: Any,
        weights: Any,
        aggregate: int,
        scores: Any,
        voted: Any,
    ) -> None:
        for row in range(x.shape[0]):
            for root in roots:
                at = root
                while mode[at] != 7:
                    value, bound, kind = x[row, feature[at]], split[at], mode[at]
                    if np.isnan(value) and missing[at]:
                        outcome = True
                    elif kind == 0:
                        outcome = value <= bound
                    elif kind == 1:
                        outcome = value < bound
                    elif kind == 2:
                        outcome = value >= bound
                    elif kind == 3:
                        outcome = value > bound
                    elif kind == 4:
                        outcome = value == bound
                    elif kind == 5:
                        outcome = value != bound
                    else:
                        outcome = False
                        for member in range(member_ends[at], member_ends[at + 1]):
                            outcome = outcome or members[member] == value
                    at = children[at, 1 if outcome else 0]
                for vote in range(vote_ends[at], vote_ends[at + 1]):
                    target, weight = targets[vote], weights[vote]
                    old = scores[row, target]
                    if aggregate < 2:
                        scores[row, target] = old + weight
                    elif not voted[row, target]:
                        scores[row, target] = weight
                    elif aggregate == 2:
                        scores[row, target] = min(old, weight)
                    else:
                        scores[row, target] = max(old, weight)
                    voted[row, target] = True

    return walk
