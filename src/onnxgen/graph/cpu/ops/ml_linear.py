"""Linear models and support vector machines of ``ai.onnx.ml``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.registry import ML, KernelTable
from onnxgen.graph.cpu.scores import (
    class_labels,
    logistic,
    post_transform,
    transformed,
    with_second_class,
)
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


def rows_of(node: NodeSpec, x: np.ndarray) -> np.ndarray:
    """The input as ``[rows, features]`` float32."""
    if x.ndim not in (1, 2):
        raise KernelError(f"{node}: needs [rows, features], its input is of shape {x.shape}")
    return x.reshape(-1, x.shape[-1]).astype(np.float32)


def _matrix(node: NodeSpec, name: str, rows: int) -> np.ndarray:
    flat = np.array(node.attr(name, ()), np.float32)
    if not rows or flat.size % rows:
        raise InvalidGraphError(f"{node}: {flat.size} {name} do not make {rows} rows")
    return flat.reshape(rows, -1)


def _times(node: NodeSpec, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    if x.shape[1] != weights.shape[1]:
        raise KernelError(f"{node}: {x.shape[1]} features where the model has {weights.shape[1]}")
    return x @ weights.T


@TABLE.operator("LinearRegressor", 1, domain=ML)
def linear_regressor(node: NodeSpec) -> Kernel:
    """A weighted sum for each target."""
    weights = _matrix(node, "coefficients", node.attr("targets", 1))
    intercepts = np.array(node.attr("intercepts", ()) or (0.0,), np.float32)
    transform = post_transform(node)

    def run(x: np.ndarray) -> np.ndarray:
        return transformed(_times(node, rows_of(node, x), weights) + intercepts, transform).astype(np.float32)

    return Kernel(run)


@TABLE.operator("LinearClassifier", 1, domain=ML)
def linear_classifier(node: NodeSpec) -> Kernel:
    """The class with the highest score, and all scores; one set of weights is about the second of two classes.

    ``multi_class`` changes nothing, as in ONNX Runtime: every class has weights of its own either way.
    """
    labels, transform = class_labels(node), post_transform(node)
    intercepts = np.array(node.attr("intercepts", ()) or (0.0,) * len(labels), np.float32)
    weights = _matrix(node, "coefficients", len(intercepts))

    def run(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores = _times(node, rows_of(node, x), weights) + intercepts
        if scores.shape[1] > 1:
            return labels[scores.argmax(axis=1)], transformed(scores, transform).astype(np.float32)
        positive = (scores[:, 0] > 0).astype(np.int64)
        if len(labels) == 2:
            pair = with_second_class(scores[:, 0], transform, probabilities=True)
            return labels[positive], pair.astype(np.float32)
        binary = np.array(["0", "1"], object) if labels.dtype == object else np.arange(2)
        return binary[positive], transformed(scores, transform).astype(np.float32)

    return Kernel(run)


@dataclass(frozen=True, slots=True)
class _VectorKernel:
    """The similarity of rows and support vectors."""

    name: str
    gamma: float
    coef0: float
    degree: int

    @staticmethod
    def of_node(node: NodeSpec) -> _VectorKernel:
        gamma, coef0, degree = node.attr("kernel_params") or (0.0, 0.0, 0.0)
        name = node.attr("kernel_type", "LINEAR")
        if name not in ("LINEAR", "POLY", "RBF", "SIGMOID"):
            raise InvalidGraphError(f"{node}: kernel_type {name!r} is none of LINEAR, POLY, RBF, SIGMOID")
        return _VectorKernel(name, gamma, coef0, int(degree))

    def __call__(self, x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """``[rows, vectors]``."""
        if self.name == "RBF":
            distances = np.square(x[:, None, :] - vectors[None]).sum(axis=-1)
            return np.exp(-self.gamma * distances)
        dots = x @ vectors.T
        if self.name == "LINEAR":
            return dots
        dots = dots * self.gamma + self.coef0
        return dots**self.degree if self.name == "POLY" else np.tanh(dots)


@TABLE.operator("SVMRegressor", 1, domain=ML)
def svm_regressor(node: NodeSpec) -> Kernel:
    """One value a row; 1 or -1 of a one-class machine. As in ONNX Runtime, ``post_transform`` changes nothing."""
    similarity = _VectorKernel.of_node(node)
    supports, rho = node.attr("n_supports", 0), np.float32(node.attr("rho", (0.0,))[0])
    coefficients = np.array(node.attr("coefficients", ()), np.float32)
    vectors = _matrix(node, "support_vectors", supports) if supports else coefficients[None]
    weights = coefficients if supports else np.ones(1, np.float32)
    if not supports:
        similarity = _VectorKernel("LINEAR", 0.0, 0.0, 0)

    def run(x: np.ndarray) -> np.ndarray:
        rows = rows_of(node, x)
        if rows.shape[1] != vectors.shape[1]:
            raise KernelError(f"{node}: {rows.shape[1]} features where the model has {vectors.shape[1]}")
        score = (similarity(rows, vectors) @ weights + rho)[:, None]
        if node.attr("one_class", 0):
            score = np.where(score > 0, 1, -1)
        return score.astype(np.float32)

    return Kernel(run)


@TABLE.operator("SVMClassifier", 1, domain=ML)
def svm_classifier(node: NodeSpec) -> Kernel:
    """By votes of pairs of classes (libsvm), or by one weighted sum for each class (liblinear)."""
    if sum(node.attr("vectors_per_class", ())):
        return Kernel(_libsvm(node))
    return Kernel(_liblinear(node))


def _liblinear(node: NodeSpec) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    labels, transform = class_labels(node), post_transform(node)
    weights = _matrix(node, "coefficients", len(labels))
    rho = np.float32(node.attr("rho", (0.0,))[0])
    positive = bool((weights >= 0).all())

    def run(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores = _times(node, rows_of(node, x), weights) + rho
        winners = scores.argmax(axis=1)
        if len(labels) == 2:
            # As in ONNX Runtime: the second class wins as soon as any score is high.
            highest = scores.max(axis=1, initial=-np.inf)
            winners = np.where(highest >= 0.5 if positive else highest > 0, 1, winners)
        return labels[winners], transformed(scores, transform).astype(np.float32)

    return run


def _libsvm(node: NodeSpec) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    labels, transform, similarity = class_labels(node), post_transform(node), _VectorKernel.of_node(node)
    counts = node.attr("vectors_per_class")
    total, classes = sum(counts), len(counts)
    vectors = _matrix(node, "support_vectors", total)
    coefficients = np.array(node.attr("coefficients"), np.float32).reshape(classes - 1, total)
    rho = np.array(node.attr("rho"), np.float32)
    prob_a, prob_b = (np.array(node.attr(name, ()), np.float32) for name in ("prob_a", "prob_b"))
    starts = np.cumsum([0, *counts])
    spans = [slice(start, start + count) for start, count in zip(starts, counts, strict=False)]
    pairs = list(combinations(range(classes), 2))
    # Row j-1 of the coefficients has those of class i against class j > i, row i those of class j against class i.
    decide = np.zeros((total, len(pairs)), np.float32)
    for column, (i, j) in enumerate(pairs):
        decide[spans[i], column] = coefficients[j - 1, spans[i]]
        decide[spans[j], column] = coefficients[i, spans[j]]

    def run(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = rows_of(node, x)
        if rows.shape[1] != vectors.shape[1]:
            raise KernelError(f"{node}: {rows.shape[1]} features where the model has {vectors.shape[1]}")
        scores = similarity(rows, vectors) @ decide + rho
        votes = np.zeros((len(rows), classes))
        for column, (i, j) in enumerate(pairs):
            votes[:, i] += scores[:, column] > 0
            votes[:, j] += scores[:, column] <= 0
        winners = labels[votes.argmax(axis=1)]
        if prob_a.size:
            chances = _pair_chances(scores, prob_a, prob_b, pairs, classes)
            scores = np.array([_class_chances(row) for row in chances]).reshape(len(rows), classes)
        elif len(pairs) == 1:
            # ONNX Runtime takes the score for a probability where a softmax is asked for.
            likely = transform in ("SOFTMAX", "SOFTMAX_ZERO")
            return winners, with_second_class(scores[:, 0], transform, probabilities=likely).astype(
                np.float32
            )
        return winners, transformed(scores, transform).astype(np.float32)

    return run


def _pair_chances(
    scores: np.ndarray, prob_a: np.ndarray, prob_b: np.ndarray, pairs: list[tuple[int, int]], classes: int
) -> np.ndarray:
    """``[rows, classes, classes]``: how probable the first class is when it is one of the two."""
    chances = np.zeros((len(scores), classes, classes))
    likely = np.clip(1 - logistic(scores * prob_a + prob_b), 1e-7, 1 - 1e-7)
    for column, (i, j) in enumerate(pairs):
        chances[:, i, j] = likely[:, column]
        chances[:, j, i] = 1 - likely[:, column]
    return chances


def _class_chances(pairwise: np.ndarray) -> np.ndarray:
    """Probabilities of classes from those of pairs (Wu, Lin and Weng 2004, method 2, as libsvm iterates it)."""
    classes = len(pairwise)
    q = -pairwise.T * pairwise
    np.fill_diagonal(q, np.square(pairwise).sum(axis=0))
    p = np.full(classes, 1 / classes)
    for _ in range(max(100, classes)):
        qp = q @ p
        pqp = p @ qp
        if np.abs(qp - pqp).max() < 0.005 / classes:
            break
        for t in range(classes):
            step = (pqp - qp[t]) / q[t, t]
            p[t] += step
            pqp = (pqp + step * (step * q[t, t] + 2 * qp[t])) / (1 + step) ** 2
            qp = (qp + step * q[t]) / (1 + step)
            p /= 1 + step
    return p
