"""`LastInputs`: what the last run of a `Generator` was fed, as a graph ``[batch, seq]`` would have seen it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from onnxgen.errors import StateError

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LastRun:
    """A run of all rows at once, and what went before it.

    Attributes:
        ids: int64 ``[rows, total]``, all tokens up to those of the run.
        mask: int64 ``[rows, total]``, 0 for padding.
        num_new: How many of them the run was fed.
        embedded: Whether embeddings were given in place of some.
    """

    ids: Int64Array
    mask: Int64Array
    num_new: int
    embedded: bool

    @property
    def positions(self) -> Int64Array:
        """int64 ``[rows, total]``."""
        return np.maximum(np.cumsum(self.mask, axis=1) - 1, 0)


class LastInputs:
    """Ids, positions and mask of the runs of rows in lock step.

    Args:
        num_rows: Rows.
    """

    def __init__(self, num_rows: int) -> None:
        self._ids = self._mask = np.zeros((num_rows, 0), np.int64)
        # tokens of the last run; None: nothing was run since the beginning or the last rewind
        self._num_new: int | None = None
        self._first_embedded: int | None = None

    def append(self, ids: Int64Array, *, pad: int | None, embedded: bool) -> None:
        """A prompt ``[rows, n]`` was run; trailing ``pad`` tokens were not."""
        mask = np.ones_like(ids)
        if pad is not None:
            behind = np.cumprod((ids == pad)[:, ::-1], axis=1)[:, ::-1]  # 1 where only padding follows
            mask[:, 1:] -= behind[:, 1:]  # the first token is run in any case
        if embedded and self._first_embedded is None:
            self._first_embedded = self._ids.shape[1]
        self._extend(ids, mask)

    def step(self, tokens: Sequence[int]) -> None:
        """A token of each row was run."""
        ids = np.array(tokens, np.int64)[:, None]
        self._extend(ids, np.ones_like(ids))

    def rewind(self, length: int) -> None:
        """Only the first ``length`` tokens are left, and nothing was run since."""
        self._ids, self._mask, self._num_new = self._ids[:, :length], self._mask[:, :length], None
        if self._first_embedded is not None and self._first_embedded >= length:
            self._first_embedded = None

    def last_run(self) -> LastRun:
        """The last run.

        Raises:
            StateError: Nothing was run since the beginning or the last rewind.
        """
        if self._num_new is None:
            raise StateError("nothing was run since the beginning or the last rewind; append tokens first")
        return LastRun(self._ids, self._mask, self._num_new, self._first_embedded is not None)

    def value(self, role: str) -> Int64Array | None:
        """int64 ``input_ids`` or ``position_ids`` ``[rows, n]``, or ``attention_mask`` ``[rows, total]``; None: another role.

        Raises:
            StateError: Nothing was run since the beginning or the last rewind.
        """
        if role not in ("input_ids", "position_ids", "attention_mask"):
            return None
        run = self.last_run()
        if role == "attention_mask":
            return run.mask.copy()
        values = run.ids if role == "input_ids" else run.positions
        return values[:, -run.num_new :].copy()

    def copy(self) -> Self:
        """Another one, of the same runs."""
        return copy.copy(self)  # arrays are replaced, never written to

    def _extend(self, ids: Int64Array, mask: Int64Array) -> None:
        self._ids = np.concatenate([self._ids, ids], axis=1)
        self._mask = np.concatenate([self._mask, mask], axis=1)
        self._num_new = ids.shape[1]
