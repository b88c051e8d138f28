"""`SteadyRows`: sequences that take part in step after step with nothing but masks to change their logits.

Most steps are of the same sequences as the one before, and most sequences ask for no change. What their options say is
then worked out once, and a step costs little more than the kernel that chooses.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.custom import SampledRow
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.row_draws import draw_of
from onnxgen.engine.sampling.state import RowState
from onnxgen.graph.cpu.draws import RepeatedDraws


class SteadyRows:
    """What the sequences of the last step were, and how their tokens are chosen if they come again."""

    def __init__(self) -> None:
        self._states: list[RowState] = []
        self._options: list[SamplingOptions] = []
        self._width = 0
        self._came_again = False
        self._draws: RepeatedDraws | None = None

    def tokens(self, logits: npt.NDArray[np.float32], rows: Sequence[SampledRow]) -> list[int] | None:
        """The tokens of sequences that `remember` was told of.

        Args:
            logits: float32 ``[rows, vocab]``.
            rows: Whose they are ``[rows]``.

        Returns:
            None if sequences, options or width are not those of the step before, if something changes their logits, or
            if a row is broken.
        """
        states, options = [row.row_state for row in rows], [row.options for row in rows]
        same_rows = _are_same(states, self._states) and _are_same(options, self._options)
        if not same_rows or logits.shape[1] != self._width:
            self._states, self._options, self._width = states, options, logits.shape[1]
            self._came_again, self._draws = False, None
            return None
        self._came_again = True
        if self._draws is None or not logits.flags.c_contiguous:
            return None
        positions = None if self._draws.takes_best else [row.num_tokens for row in rows]
        masks = [row.mask for row in rows]
        tokens = self._draws.tokens(logits, positions, masks if any(m is not None for m in masks) else None)
        return tokens if min(tokens) >= 0 else None

    def remember(self, rows: Sequence[SampledRow], num_tokens: int) -> None:
        """Nothing changes the logits of this step's sequences: choose at once if they come once more.

        Args:
            rows: The sequences that `tokens` was asked for last.
            num_tokens: Ids from here on are never chosen.
        """
        assert len(rows) == len(self._states) and rows[0].row_state is self._states[0]
        if self._came_again and self._draws is None and not any(row.options.mirostat for row in rows):
            draws = RepeatedDraws([draw_of(row) for row in rows], num_tokens)
            self._draws = draws if draws.is_possible else None


def _are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))
