"""Penalties on tokens that occurred: by sign over the whole sequence, and by count over the answer."""

from __future__ import annotations

import numpy as np

from onnxgen.engine.sampling.custom import Row, TokenArray
from onnxgen.engine.sampling.edits import Edit
from onnxgen.graph.cpu.token_counts import token_counts

_MANY = 2500
"""Tokens from which on telling them apart takes less time than writing some of them several times."""


def penalize_repetition(row: Row, history: TokenArray, penalty: float) -> Edit:
    """Make tokens that occur in ``history`` less likely, once per distinct token.

    Positive logits are divided by ``penalty``, negative ones multiplied (CTRL, https://arxiv.org/abs/1909.05858, with
    the sign rule of transformers' ``RepetitionPenaltyLogitsProcessor``).

    Args:
        row: Logits, float32 ``[vocab]``.
        history: Token ids, any order, repeats allowed.
        penalty: Above 0; 1 changes nothing.
    """
    tokens = history if len(history) < _MANY else token_counts(history, vocab_size=len(row))[0]
    values, factor = row[tokens], np.float32(penalty)
    return Edit(tokens, np.where(values < 0, values * factor, values / factor))


def penalize_answer(row: Row, answer: TokenArray, *, presence: float, frequency: float) -> Edit:
    """Lower the logits of tokens in ``answer``, as OpenAI's API defines it
    (https://developers.openai.com/api/docs/guides/advanced-usage).

    Args:
        row: Logits, float32 ``[vocab]``.
        answer: Token ids that were generated; the prompt is not part of it.
        presence: Taken once for each distinct token.
        frequency: Taken for each occurrence.
    """  # noqa: D205 - a link does not fit the first line
    tokens, counts = token_counts(answer, vocab_size=len(row))
    return Edit(tokens, row[tokens] - (presence + frequency * counts).astype(np.float32))
