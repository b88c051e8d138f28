"""Sampling images at fractional positions."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

Boundary = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray | None]]
"""From integer positions along an axis and its size to indices inside, and where elements count (None: all)."""


def zero_outside(index: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Elements outside are 0."""
    return np.clip(index, 0, size - 1), (index >= 0) & (index < size)


def gather(
    image: np.ndarray, neighbours: list[tuple[np.ndarray, np.ndarray]], boundary: Boundary
) -> np.ndarray:
    """Sum weighted neighbours over the product of the axes.

    Args:
        image: ``[channels, *size]`` of a float type.
        neighbours: For each axis integer positions and weights, both ``[taps, points]``.
        boundary: What is outside.

    Returns:
        ``[channels, points]``.
    """
    flat = image.reshape(image.shape[0], -1)
    total = np.zeros((image.shape[0], neighbours[0][0].shape[1]), image.dtype)
    inside = [boundary(index, size) for (index, _), size in zip(neighbours, image.shape[1:], strict=True)]
    for taps in itertools.product(*(range(index.shape[0]) for index, _ in neighbours)):
        place = np.zeros(total.shape[1], np.intp)
        weight = np.ones(total.shape[1], image.dtype)
        for tap, size, (index, counts), (_, weights) in zip(
            taps, image.shape[1:], inside, neighbours, strict=True
        ):
            place = place * size + index[tap]
            weight = weight * weights[tap]
            if counts is not None:
                weight = np.where(counts[tap], weight, 0)
        total += flat[:, place] * weight
    return total


def linear_neighbours(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two elements around each position ``[points]`` and their weights, both ``[2, points]``."""
    low = np.floor(positions)
    fraction = positions - low
    return np.stack([low, low + 1]).astype(np.intp), np.stack([1 - fraction, fraction])
