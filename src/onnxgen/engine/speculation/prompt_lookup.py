"""`PromptLookup`: guesses that a sequence goes on as it did where its last tokens stood before, in prompt or answer."""

from __future__ import annotations

from collections.abc import Sequence

from onnxgen.engine.speculation.base import Draft, Wanted
from onnxgen.graph.cpu.recurrences import SuffixIndex, prepare_recurrences

_LENGTHS = (4, 8, 16)
"""Matches of fewer tokens than the first, than the second and so on are right about equally often."""


class PromptLookup:
    """Drafts from the sequences themselves, for text that is copied, edited, listed or repeated.

    The longest match counts, however far back it is. See `SuffixIndex` for what it takes: memory of up to 250 bytes for each
    token of a sequence, and 16 MiB at most. The first on a machine waits a second for the compiler.
    """

    name = "prompt_lookup"
    needs_hidden_states = False

    def __init__(self) -> None:
        prepare_recurrences()
        self._indices: dict[int, SuffixIndex] = {}

    def propose(self, wanted: Sequence[Wanted], /) -> list[Draft | None]:
        """What followed the longest match of each sequence's end; see `Proposer.propose`."""
        return [self._draft(each) for each in wanted]

    def forget(self, key: int, /) -> None:
        """Let go of a sequence's index."""
        self._indices.pop(key, None)

    def close(self) -> None:
        """Let go of all indices."""
        self._indices.clear()

    def _draft(self, wanted: Wanted) -> Draft | None:
        index = self._indices.get(wanted.key)
        if index is None:
            index = self._indices[wanted.key] = SuffixIndex()
        tokens, length = index.following(wanted.history, wanted=wanted.num_tokens, least=wanted.min_match)
        if not len(tokens):
            return None
        kind = 0 if not length else 1 + sum(length >= bound for bound in _LENGTHS)
        return Draft(tuple(tokens.tolist()), kind=kind)
