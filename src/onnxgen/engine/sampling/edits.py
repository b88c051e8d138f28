"""`Edit`: new values for some places of a row of logits. What changes logits returns one, and writes nothing itself.

So a change reads like its formula, and whoever applies it decides whether to write into a copy, or into the model's own
row and to take it back after a token was chosen: of 150,000 logits most changes touch a few hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.custom import Row, SampledRow, TokenArray

BANNED = np.finfo(np.float32).min
"""The logit of a banned token: the lowest, so that a row whose tokens are all banned still has a choice."""

FORBIDDEN = np.float32(-np.inf)
"""The logit of a token that is never chosen, whatever else is banned."""


class Edit(NamedTuple):
    """New values for places of a row.

    Attributes:
        tokens: Token ids ``[edits]``. One may come several times; its last value counts.
        values: Their new logits, float32 ``[edits]``.
    """

    tokens: TokenArray
    values: npt.NDArray[np.float32]


Change = Callable[[Row, SampledRow], "Edit | None"]
"""What to do to a row of logits of a sequence; None: nothing."""


def ban(row: Row, tokens: TokenArray) -> Edit:
    """Ban tokens; what is forbidden already stays so."""
    return Edit(tokens, np.minimum(row[tokens], BANNED))


def apply(
    changes: Sequence[Change], row: Row, sequence: SampledRow, *, undo: list[Edit] | None = None
) -> None:
    """Make changes to a row in place, one after the other.

    Args:
        changes: In order.
        row: float32 ``[vocab]``.
        sequence: Whose it is.
        undo: Gets what takes them back: to be written from the last to the first.
    """
    for change in changes:
        edit = change(row, sequence)
        if edit is not None:
            if undo is not None:
                undo.append(Edit(edit.tokens, row[edit.tokens]))
            row[edit.tokens] = edit.values


def take_back(undo: list[Edit], row: Row) -> None:
    """Give a row the values back that it had before `apply`."""
    for edit in reversed(undo):
        row[edit.tokens] = edit.values
