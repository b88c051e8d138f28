"""Bans: tokens that would end a sequence too early, complete a forbidden run of tokens, or repeat a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import numpy as np

from onnxgen.engine.sampling.custom import TokenArray
from onnxgen.graph.cpu.suffixes import followers_of_suffixes


def repeating_tokens(history: TokenArray, size: int) -> TokenArray:
    """Tokens that would repeat a run of ``size`` tokens of ``history``; every token seen if ``size`` is 1.

    As transformers' ``NoRepeatNGramLogitsProcessor`` (https://arxiv.org/abs/1705.04304), in linear time.
    """
    if len(history) < size:
        return history[:0]
    if size == 1:
        return history
    return followers_of_suffixes(history, least=size - 1)[0]


class BadWords:
    """Token sequences that must not occur: the last token of one is banned after the ones before it.

    As transformers' ``NoBadWordsLogitsProcessor``, but an end-of-sequence token may be one as well.

    Args:
        words: None of them empty.
    """

    def __init__(self, words: Collection[Sequence[int]]) -> None:
        self._always = np.array(sorted({word[0] for word in words if len(word) == 1}), np.int64)
        self._by_last: dict[int, list[tuple[TokenArray, int]]] = defaultdict(list)
        for word in words:
            if len(word) > 1:
                before = np.array(word[:-1], np.int64)
                self._by_last[word[-2]].append((before, word[-1]))

    def banned(self, history: TokenArray) -> TokenArray:
        """Tokens that would complete one, int64; the array is not to be changed."""
        ending = self._by_last.get(int(history[-1]), ()) if len(history) else ()
        completed = [
            last
            for before, last in ending
            if len(before) <= len(history) and np.array_equal(history[len(history) - len(before) :], before)
        ]
        return np.concatenate([self._always, completed]).astype(np.int64) if completed else self._always
