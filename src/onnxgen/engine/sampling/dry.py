"""DRY: tokens that would lengthen a repetition are the less likely the longer it is."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.custom import Row, TokenArray
from onnxgen.engine.sampling.edits import BANNED, Edit
from onnxgen.graph.cpu.suffixes import followers_of_suffixes

_LARGEST_LOG = math.log(np.finfo(np.float32).max)


def penalize_lengthening(
    row: Row,
    history: TokenArray,
    is_breaker: npt.NDArray[np.bool_],
    *,
    multiplier: float,
    base: float,
    allowed_length: int,
) -> Edit | None:
    """Penalize tokens that have followed an earlier occurrence of the sequence's end.

    Where the last ``length`` tokens have occurred before, what followed them loses
    ``multiplier * base ** (length - allowed_length)``, if ``length`` is at least ``allowed_length``; of several
    occurrences the longest counts. As text-generation-webui defines it
    (https://github.com/oobabooga/text-generation-webui/pull/5677), without its limit of 50 tokens, and as llama.cpp does
    for breakers of one token.

    Args:
        row: Logits, float32 ``[vocab]``.
        history: Token ids, the latest last.
        is_breaker: ``[vocab]``: tokens that end a repetition and are never penalized.
        multiplier: Above 0.
        base: At least 1.
        allowed_length: At least 1.
    """
    if len(history) <= allowed_length:
        return None
    reach = _since_breaker(is_breaker, history)
    if reach < allowed_length:
        return None
    tokens, lengths = followers_of_suffixes(history, least=allowed_length)
    kept = ~is_breaker[tokens]
    tokens, lengths = tokens[kept], np.minimum(lengths[kept], reach)
    if not len(tokens):
        return None
    order = np.argsort(lengths, kind="stable")  # the last value of a token counts: that of its longest
    tokens = tokens[order]
    penalties = _penalties(lengths[order] - allowed_length, multiplier, base)
    return Edit(tokens, _lowered(row[tokens], penalties))


def _since_breaker(is_breaker: npt.NDArray[np.bool_], history: TokenArray) -> int:
    """How many tokens stand after the last breaker."""
    found = is_breaker[history[::-1]]
    place = int(found.argmax())
    return place if found[place] else len(history)


def _penalties(exponents: npt.NDArray[np.int64], multiplier: float, base: float) -> npt.NDArray[np.float64]:
    return np.exp(np.minimum(math.log(multiplier) + exponents * math.log(base), _LARGEST_LOG))


def _lowered(values: npt.NDArray[np.float32], penalties: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    # no penalty makes a token worse than a banned one, and a forbidden one stays forbidden
    lowered = np.maximum(values - penalties, BANNED).astype(np.float32)
    return np.minimum(values, lowered)
