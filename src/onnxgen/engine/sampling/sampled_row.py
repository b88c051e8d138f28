"""`SampledRow`: what choosing a token needs to know of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from onnxgen.engine.sampling.custom import BatchLogitsProcessor, LogitsProcessor, Sampler, TokenArray
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.state import RowState


class SampledRow(Protocol):
    """A sequence whose next token is to be chosen."""

    @property
    def options(self) -> SamplingOptions:
        """How the token is chosen; has a seed."""
        ...

    @property
    def processors(self) -> Sequence[LogitsProcessor | BatchLogitsProcessor]:
        """Called in order; usually none."""
        ...

    @property
    def sampler(self) -> Sampler | None:
        """Chooses in place of ours; usually None."""
        ...

    @property
    def num_tokens(self) -> int:
        """Length of the sequence, prompt included."""
        ...

    @property
    def num_new_tokens(self) -> int:
        """How many of them were generated."""
        ...

    @property
    def history(self) -> TokenArray:
        """Token ids ``[num_tokens]``; only asked for when an option or a processor looks at them."""
        ...

    @property
    def row_state(self) -> RowState:
        """What choosing its tokens has to remember."""
        ...
