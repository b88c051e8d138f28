"""`LastInputs`: what the last run of a `Generator` was fed, as a graph ``[batch, seq]`` would have seen it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from onnxgen.errors import StateError

Int64Array = npt.NDArray[np.int64]


class LastInputs:
    """Ids, positions and mask of the last run of rows in lock step.

    Args:
        num_rows: Rows.
    """

    def __init__(self, num_rows: int) -> None:
        self._mask = np.zeros((num_rows, 0), np.int64)
        self._ids: Int64Array | None = None

    def append(self, ids: Int64Array, *, pad: int | None) -> None:
        """A prompt ``[rows, n]`` was run; trailing ``pad`` tokens were not."""
        mask = np.ones_like(ids)
        if pad is not None:
            behind = np.cumprod((ids == pad)[:, ::-1], axis=1)[:, ::-1]  # 1 where only padding follows
            mask[:, 1:] -= behind[:, 1:]  # the first token is run in any case
        self._ids, self._mask = ids.copy(), np.concatenate([self._mask, mask], axis=1)

    def step(self, tokens: Sequence[int]) -> None:
        """A token of each row was run."""
        ids = np.array(tokens, np.int64)[:, None]
        self._ids, self._mask = ids, np.concatenate([self._mask, np.ones_like(ids)], axis=1)

    def rewind(self, length: int) -> None:
        """Only the first ``length`` tokens are left, and nothing was run since."""
        self._mask, self._ids = self._mask[:, :length], None

    def value(self, role: str) -> Int64Array | None:
        """int64 ``input_ids`` or ``position_ids`` ``[rows, n]``, or ``attention_mask`` ``[rows, total]``; None: another role.

        Raises:
            StateError: Nothing was run since the beginning or the last rewind.
        """
        if role not in ("input_ids", "position_ids", "attention_mask"):
            return None
        if self._ids is None:
            raise StateError(
                f"nothing was run since the beginning or the last rewind, so {role} has no value"
            )
        if role == "attention_mask":
            return self._mask.copy()
        if role == "input_ids":
            return self._ids.copy()
        positions = np.maximum(np.cumsum(self._mask, axis=1) - 1, 0)
        return positions[:, positions.shape[1] - self._ids.shape[1] :]
