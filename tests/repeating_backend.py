"""A scripted backend whose answers repeat themselves, and logits of which depend on every token that the cache holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.backends.fake import FakeBackend


class RepeatingBackend(FakeBackend):
    """Mostly says what a table says of the last token, which leads into short cycles.

    Args:
        vocab_size: Width of the logits.
        cycle: How many tokens take part.
        first: The first of them.
        sharpness: How much more likely the table's token is; the noise of the others is around 1.
        salt: Another number is another table.
        options: Those of `FakeBackend`.
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        cycle: int = 6,
        first: int = 3,
        sharpness: float = 4.0,
        salt: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(vocab_size, **options)
        self._table = first + np.random.default_rng(salt).permutation(cycle)
        self._sharpness = sharpness

    def _logits_after(self, sequence):
        logits = super()._logits_after(sequence)
        logits[self._table[int(sequence[-1]) % len(self._table)]] += self._sharpness
        return logits
