"""Class scores of classical models: their transforms, and how one score becomes two.

The formulas are ONNX Runtime's, also where the standard leaves them open: the probit is an approximation, and a single
score has a second class added in a way that depends on what the winner's score was compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.ep.node import NodeSpec

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""Transforms by number, as TreeEnsemble has them."""


def class_labels(node: NodeSpec) -> np.ndarray:
    """The labels of a classifier, strings or int64."""
    for name in ("classlabels_strings", "classlabels_int64s", "classlabels_ints"):
        if node.attr(name):
            return np.array(node.attr(name), object if name.endswith("strings") else np.int64)
    raise InvalidGraphError(f"{node}: has no class labels")


def named(node: NodeSpec, name: str, default: str, known: Sequence[str]) -> str:
    """A string attribute that has to be one of a few."""
    value = node.attr(name, default)
    if value not in known:
        raise InvalidGraphError(f"{node}: {name} {value!r} is none of {', '.join(known)}")
    return value


def post_transform(node: NodeSpec) -> str:
    """The transform of the scores that the attribute names."""
    return named(node, "post_transform", "NONE", TRANSFORMS)


def logistic(x: np.ndarray) -> np.ndarray:
    """``1 / (1 + exp(-x))`` without overflow."""
    half = 1 / (1 + np.exp(-np.abs(x)))
    return np.where(x < 0, 1 - half, half)


def softmax(x: np.ndarray) -> np.ndarray:
    """Of the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_zero(x: np.ndarray) -> np.ndarray:
    """`softmax` of the scores that are not zero; zeros stay (next to) zero."""
    highest = x.max(axis=-1, keepdims=True)
    zero = np.abs(x) <= 1e-7
    e = np.where(zero, x * np.exp(-highest), np.exp(x - highest))
    return e / np.where(zero, 0, e).sum(axis=-1, keepdims=True)


def probit(x: np.ndarray) -> np.ndarray:
    """The normal quantile, by Winitzki's approximation of the inverse error function."""
    y = 2 * x - 1
    log = np.log((1 - y) * (1 + y))
    v = 2 / (3.14159 * 0.147) + 0.5 * log
    return np.sqrt(2) * np.where(y < 0, -1, 1) * np.sqrt(-v + np.sqrt(v * v - log / 0.147))


_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "NONE": lambda x: x,
    "SOFTMAX": softmax,
    "LOGISTIC": logistic,
    "SOFTMAX_ZERO": softmax_zero,
    "PROBIT": probit,
}


def transformed(scores: np.ndarray, transform: str) -> np.ndarray:
    """Apply a transform to ``[rows, targets]``; of a single target only the probit changes anything."""
    if scores.shape[-1] == 1 and transform != "PROBIT":
        return scores
    with np.errstate(all="ignore"):
        return _FUNCTIONS[transform](scores)


def with_second_class(score: np.ndarray, transform: str, *, probabilities: bool) -> np.ndarray:
    """Scores ``[rows, 2]`` of the negative and the positive class, from that of the positive one ``[rows]``.

    The probit is the first of the two, as in ONNX Runtime, which leaves the second uninitialised; here it is the negative.

    Args:
        score: Of the positive class.
        transform: One of `TRANSFORMS`.
        probabilities: Whether the score is a probability (compared with 0.5); otherwise the other's is its negative.
    """
    if transform == "PROBIT":
        score = transformed(score[:, None], transform)[:, 0]
        return np.stack([score, -score], axis=-1)
    pair = np.stack([-score, score], axis=-1)
    if transform == "LOGISTIC":
        return logistic(pair)
    return np.stack([1 - score, score], axis=-1) if probabilities else pair
