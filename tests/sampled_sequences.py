"""Sequences as `RowSampler` wants to see them, without an engine around."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.state import RowState


@dataclass
class SampledSequence:
    """A sequence; counts how often its history was asked for."""

    options: SamplingOptions
    tokens: list[int] = field(default_factory=list)
    prompt_tokens: int = 0
    processors: tuple = ()
    sampler: Any = None
    mask: np.ndarray | None = None
    row_state: RowState = field(default_factory=RowState)
    asked: int = 0

    @property
    def num_tokens(self):
        return len(self.tokens)

    @property
    def num_new_tokens(self):
        return len(self.tokens) - self.prompt_tokens

    @property
    def history(self):
        self.asked += 1
        return np.array(self.tokens, np.int64)
