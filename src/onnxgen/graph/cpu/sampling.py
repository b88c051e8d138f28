"""Sampling images at fractional positions."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.team import share

_ELEMENTS_PER_S = 1e9
"""Neighbours that one thread adds up, roughly: to tell what is worth sharing."""

_NEIGHBOURS_OF_A_PART = 16384

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
    channels, points = image.shape[0], neighbours[0][0].shape[1]
    y = np.empty((channels, points), image.dtype)
    if y.size == 0:
        return y
    inside = [boundary(index, size) for (index, _), size in zip(neighbours, image.shape[1:], strict=True)]
    combinations = list(itertools.product(*(range(index.shape[0]) for index, _ in neighbours)))
    places = np.zeros((len(combinations), points), np.int64)
    factors = np.ones((len(combinations), points), image.dtype)
    for taps, place, factor in zip(combinations, places, factors, strict=True):
        for tap, size, (index, counts), (_, weights) in zip(
            taps, image.shape[1:], inside, neighbours, strict=True
        ):
            place *= size
            place += index[tap]
            factor *= weights[tap]
            if counts is not None:
                factor[~counts[tap]] = 0
    add_up(image.reshape(channels, -1), places.view(np.uint64), factors, y)
    return y


def add_up(x: np.ndarray, places: np.ndarray, weights: np.ndarray, y: np.ndarray) -> None:
    """``y[c, p] = sum(weights[t, p] * x[c, places[t, p]] over t)``.

    Args:
        x: float32 or float64 ``[channels, size]``.
        places: uint64 ``[taps, points]``, all inside.
        weights: Of the type of ``x``, ``[taps, points]``.
        y: Of the type of ``x``, ``[channels, points]``, C-contiguous.
    """
    from onnxgen.graph.cpu.compiled.gathers import at_points

    if y.size == 0:
        return
    each = max(1, _NEIGHBOURS_OF_A_PART // places.size)
    share(
        at_points(x.dtype),
        *(np.ascontiguousarray(array) for array in (x, places, weights)),
        y,
        each,
        parts=-(-len(x) // each),
        seconds=len(x) * places.size / _ELEMENTS_PER_S,
    )


def linear_neighbours(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two elements around each position ``[points]`` and their weights, both ``[2, points]``."""
    low = np.floor(positions)
    fraction = positions - low
    return np.stack([low, low + 1]).astype(np.intp), np.stack([1 - fraction, fraction])
