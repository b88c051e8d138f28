"""Changes to a row of logits before a token is chosen: penalties and bans.

All of them change the row in place, so callers pass a row that they own. A banned token gets the lowest
float32, so that a row whose tokens are all banned still has a choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

BANNED = np.finfo(np.float32).min

TokenArray = npt.NDArray[np.integer[Any]]
Row = npt.NDArray[np.float32]


def penalize_repetition(row: Row, history: TokenArray, penalty: float) -> None:
    """Make tokens that occur in ``history`` less likely, once per distinct token, in place.

    Positive logits are divided by ``penalty``, negative ones multiplied (CTRL, arXiv:1909.05858, with the
    sign rule that Hugging Face added).

    Args:
        row: Logits, float32 ``[vocab]``.
        history: Token ids of the sequence, prompt included, any order, repeats allowed.
        penalty: Above 0; 1 changes nothing.
    """
    seen = np.zeros(row.shape[0], np.bool_)
    seen[history] = True
    values = row[seen]
    with np.errstate(over="ignore"):
        row[seen] = np.where(values < 0, values * np.float32(penalty), values / np.float32(penalty))


def ban_eos(row: Row, eos_ids: Sequence[int]) -> None:
    """Ban all end-of-sequence tokens in ``row`` ``[vocab]``, in place."""
    row[list(eos_ids)] = BANNED


def ban_repeated_ngrams(row: Row, history: TokenArray, size: int) -> None:
    """Ban tokens that would repeat a run of ``size`` tokens of ``history``, in place.

    With ``size`` 1 every token seen is banned.
    """
    if len(history) < size:
        return
    runs = np.lib.stride_tricks.sliding_window_view(history, size)  # [positions, size]
    last = history[len(history) - size + 1 :]  # [size - 1]
    repeats = (runs[:, :-1] == last).all(axis=1)
    row[runs[repeats, -1]] = BANNED
