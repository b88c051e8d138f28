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
    values = row[history]  # read before any is written, so repeats write the same
    with np.errstate(over="ignore"):
        row[history] = np.where(values < 0, values * np.float32(penalty), values / np.float32(penalty))


def penalize_answer(row: Row, answer: TokenArray, *, presence: float, frequency: float) -> None:
    """Take from the logits of tokens in ``answer``, in place, as OpenAI's API defines it.

    Args:
        row: Logits, float32 ``[vocab]``.
        answer: Token ids that were generated; the prompt is not part of it.
        presence: Taken once for each distinct token.
        frequency: Taken for each occurrence.
    """
    tokens, counts = np.unique(answer, return_counts=True)
    row[tokens] -= (presence + frequency * counts).astype(np.float32)


def ban_eos(row: Row, eos_ids: Sequence[int]) -> None:
    """Ban all end-of-sequence tokens in ``row`` ``[vocab]``, in place."""
    _ban(row, np.array(eos_ids, np.int64))


def ban_repeated_ngrams(row: Row, history: TokenArray, size: int) -> None:
    """Ban tokens that would repeat a run of ``size`` tokens of ``history``, in place.

    With ``size`` 1 every token seen is banned.
    """
    if len(history) < size:
        return
    runs = np.lib.stride_tricks.sliding_window_view(history, size)  # [positions, size]
    last = history[len(history) - size + 1 :]  # [size - 1]
    repeats = (runs[:, :-1] == last).all(axis=1)
    _ban(row, runs[repeats, -1])


def _ban(row: Row, tokens: TokenArray) -> None:
    # what a grammar forbade stays below what is only banned
    row[tokens] = np.minimum(row[tokens], BANNED)
