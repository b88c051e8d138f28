"""`Adapter`: what low-rank adaptation adds to a loaded model, as a backend takes it (arXiv:2106.09685).

y = W x + B (A x)        for each linear layer that the adapter names; its scale is part of B
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class LoraPair:
    """What is added to one linear layer.

    Attributes:
        a: float32 ``[rank, in_features]``.
        b: float32 ``[out_features, rank]``, the adapter's scale included.
    """

    a: npt.NDArray[np.float32]
    b: npt.NDArray[np.float32]

    @property
    def rank(self) -> int:
        """Of the product of the two."""
        return self.a.shape[0]


@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """An adapter, read from its files; either ``pairs`` or ``inputs`` says what it changes.

    Attributes:
        name: What requests call it.
        source: Where it was read from, for messages.
        digest: Of its content: adapters of equal digests compute the same.
        pairs: By the name of the linear layer in the checkpoint, such as ``model.layers.0.self_attn.q_proj``.
        inputs: By the name of a graph input that was made for adapters.
    """

    name: str
    source: str
    digest: str
    pairs: Mapping[str, LoraPair] = field(default_factory=dict[str, LoraPair])
    inputs: Mapping[str, Array] = field(default_factory=dict[str, Array])
