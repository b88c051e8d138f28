"""`DraftedRow`: a sequence with some tokens of a draft behind it, as far as choosing the next token goes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sample import Sample
from onnxgen.engine.sampling.custom import Mask


class DraftedRow:
    """A `SampledRow` of a sequence that has no processors and no sampler of its own.

    Attributes:
        options: The sequence's.
        processors: None.
        sampler: None.
        row_state: The sequence's; nothing that is remembered may depend on tokens.
        num_tokens: Its length, with the draft tokens before this row.
        num_new_tokens: Of these, those of the answer.
        history: Their ids, int64 ``[num_tokens]``: a view, valid until the sequence gets another token.
        mask: Tokens that may follow; None: all may.
    """

    __slots__ = (
        "history",
        "mask",
        "num_new_tokens",
        "num_tokens",
        "options",
        "processors",
        "row_state",
        "sampler",
    )

    def __init__(self, sample: Sample, history: npt.NDArray[np.int64], mask: Mask | None) -> None:
        self.options = sample.options
        self.processors = ()
        self.sampler = None
        self.row_state = sample.row_state
        self.num_tokens = len(history)
        self.num_new_tokens = sample.num_new_tokens + len(history) - sample.num_tokens
        self.history = history
        self.mask = mask


def drafted_rows(
    sample: Sample, draft: Sequence[int], masks: Sequence[Mask] | npt.NDArray[np.uint32] | None
) -> list[DraftedRow]:
    """A row for what follows the sequence, and one for what follows each token of a draft.

    Args:
        sample: The sequence.
        draft: Tokens that may follow it.
        masks: For each row; None: all tokens may follow.
    """
    history = sample.tokens.view_with(draft)
    return [
        DraftedRow(sample, history[: sample.num_tokens + at], None if masks is None else masks[at])
        for at in range(len(draft) + 1)
    ]
