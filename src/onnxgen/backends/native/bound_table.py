"""`BoundTable`: a bound plan that runs on one cache after another, and the parts of its calls by the shape of a pass."""

from __future__ import annotations

import numpy as np

from onnxgen.backends.native.bind import Binding
from onnxgen.backends.native.cache import NativeCache
from onnxgen.graph.cpu.step.table import StepShape

_MOST_SHAPES = 512


class BoundTable:
    """A bound plan. All code that it calls is loaded here, and compiled where it is missing.

    Attributes:
        binding: The table, and its memory.
    """

    def __init__(self, binding: Binding) -> None:
        binding.builder.table.load()
        self.binding = binding
        self._counts: dict[tuple[int, int, int, bool], np.ndarray] = {}
        self._bound: tuple[tuple[int, int], ...] | None = None

    def use(self, cache: NativeCache) -> None:
        """Read and write this cache from now on."""
        if cache.layers is not self._bound:
            self.binding.attention.use(self.binding.builder, cache.layers)
            self._bound = cache.layers

    def parts(self, shape: StepShape, *, with_head: bool) -> np.ndarray:
        """int64 ``[rows of the table]``: the parts of each; none behind the hidden states unless ``with_head``."""
        key = (shape.tokens, shape.rows, shape.given, with_head)
        counts = self._counts.get(key)
        if counts is None:
            if len(self._counts) >= _MOST_SHAPES:
                self._counts.clear()
            counts = self._counts[key] = self.binding.builder.table.counts(shape)
            if not with_head:
                counts[self.binding.head_row :] = 0
        return counts
