"""`SuffixIndex`: all that ever stood in a growing token sequence, compiled: what its end was followed by before."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from onnxgen.graph.cpu.compiled.recurrence_layout import FIELDS, HEADER_SIZE, OTHER_TOKENS
from onnxgen.graph.cpu.step.code_store import default_store
from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls

MOST_TOKENS = 1 << 17
"""Of longer sequences only the later half of so many tokens is known, and what comes then."""

_LEAST_ROOM = 256


class SuffixIndex:
    """Finds the longest stretch at a sequence's end that also stands further in front, whatever its length.

    A new token takes amortized constant time, some 100 ns. Memory is 124 bytes for each token that there is room for, which
    is up to twice as many as there are, and at most 16 MiB.
    """

    def __init__(self) -> None:
        self._start = 0
        self._capacity = 0
        self._header = np.zeros(HEADER_SIZE, np.int64)
        self._memory = np.zeros(0, np.int32)
        self._found = np.zeros(0, np.int64)
        self._addresses = (0, 0)

    @property
    def num_bytes(self) -> int:
        """Memory that it holds."""
        return self._memory.nbytes + self._header.nbytes

    def following(
        self, tokens: npt.NDArray[np.int64], *, wanted: int, least: int
    ) -> tuple[npt.NDArray[np.int64], int]:
        """What may follow a sequence, because it did where its end stood before.

        That is what followed the last occurrence of the longest match if that is long enough, else what followed the first; and
        if that is too short as well, the sequence is taken to repeat itself from there on. Where a long passage that was
        being copied has just been left, what followed in it behind as many tokens is taken, until there is a match again.

        Args:
            tokens: int64 ``[size]``, contiguous: those of the call before and some more. After others the index is made anew.
            wanted: How many tokens, at least 1.
            least: The shortest match that counts, at least 1.

        Returns:
            int64 ``[wanted]``, or empty; and the length of the match, 0 for what follows in a passage that was left.
        """
        if not self._capacity or not 0 <= tokens.shape[0] - self._start <= self._capacity:
            self._begin(tokens)
        if len(self._found) < wanted + 2:
            self._found = np.zeros(wanted + 2, np.int64)
        count, length = self._run(tokens, wanted, least)
        if count == OTHER_TOKENS:
            self._begin(tokens)
            count, length = self._run(tokens, wanted, least)
        return self._found[:count].copy(), length

    def _begin(self, tokens: npt.NDArray[np.int64]) -> None:
        """Forget all, and have room for a sequence and some more."""
        size = tokens.shape[0]
        self._start = size - MOST_TOKENS // 2 if size >= MOST_TOKENS else 0
        room = size - self._start + _LEAST_ROOM
        self._capacity = min(1 << (room - 1).bit_length(), MOST_TOKENS)
        self._header[:] = 0
        self._memory = np.zeros(FIELDS * self._capacity, np.int32)
        self._addresses = self._header.ctypes.data, self._memory.ctypes.data

    def _run(self, tokens: npt.NDArray[np.int64], wanted: int, least: int) -> tuple[int, int]:
        """How many tokens follow, which are in ``_found`` then, and how long the match is."""
        assert tokens.flags.c_contiguous and tokens.dtype == np.int64
        answer = self._found.ctypes.data
        arguments = (
            tokens.ctypes.data + 8 * self._start,
            tokens.shape[0] - self._start,
            *self._addresses,
            self._capacity,
            least,
            wanted,
            answer,
            answer + 8 * wanted,
        )
        _recurrences().run([arguments], [1], seconds=0)
        count, length = self._found[wanted : wanted + 2].tolist()
        return count, length


@cache
def _recurrences() -> NodeCalls:
    return NodeCalls(recurrences_kernel())


def recurrences_kernel() -> StepKernel:
    """The kernel behind this module."""
    arguments = ("tokens", "size", "header", "memory", "capacity", "least", "wanted", "following", "found")
    return step_kernel("recurrences:recurrences", arguments, sure_match=4, long_match=8, edit_tokens=8)


def prepare_recurrences() -> None:
    """Compile what this machine has none of yet, so that no request waits for it."""
    default_store().prepare([recurrences_kernel()])
