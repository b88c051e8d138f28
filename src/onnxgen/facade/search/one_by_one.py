"""`OneByOne`: a token of each row after a run of the model, and those before it that a grammar forces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from onnxgen.engine.batch import Batch
from onnxgen.facade.og_sampling import OgSampler
from onnxgen.facade.search.guide import Guide
from onnxgen.facade.search.round_counts import RoundCounts
from onnxgen.facade.search.source import Chosen

Float32Array = npt.NDArray[np.float32]


class OneByOne:
    """The plain way. See `onnxgen.facade.search.source.TokenSource`.

    Args:
        batch: The rows.
        sampler: Chooses tokens.
        eos_ids: Tokens that end a row.
        guides: The grammar of each row; empty: there is none.
    """

    def __init__(
        self, batch: Batch, sampler: OgSampler, *, eos_ids: Sequence[int], guides: Sequence[Guide] = ()
    ) -> None:
        self._batch, self._sampler = batch, sampler
        self._eos_ids, self._guides = eos_ids, guides

    def next(self, rows: Sequence[int], *, length: int) -> Chosen:
        """Choose a token for every row."""
        forced = self._guides[0].forced() if len(self._guides) == 1 else ()
        forced = forced[: self._batch.max_tokens - length]
        if not forced:
            return self._choose(rows, length=length)
        with self._batch.transaction():
            self._batch.extend(rows[0], forced)
            if length + len(forced) == self._batch.max_tokens:
                return Chosen([], np.empty((0, 0), np.float32), forced)
            return self._choose(rows, length=length + len(forced), forced=forced)

    def taken(self, rows: Sequence[int], chosen: Chosen, *, length: int, done: bool) -> None:
        """Let grammars follow."""
        del done
        if not self._guides:
            return
        for at, token in enumerate(chosen.forced):
            self._guides[0].add(token, length=length + at)
        for row, token in zip(rows, chosen.tokens, strict=False):
            if token not in self._eos_ids:
                self._guides[row].add(token, length=length + len(chosen.forced))

    def interrupt(self, *, length: int) -> None:
        """Nothing is under way between steps."""

    def begin_answer(self, *, length: int) -> None:
        """Grammars begin anew."""
        for guide in self._guides:
            guide.begin(length=length)

    def rewind(self, length: int) -> None:
        """Grammars and random numbers go back."""
        self._sampler.rewind(length)
        for guide in self._guides:
            guide.rewind(length)

    def fork(self, batch: Batch, *, length: int) -> OneByOne:
        """Another one at the same place."""
        del length
        guides = [guide.fork() for guide in self._guides]
        return OneByOne(batch, self._sampler.fork(), eos_ids=self._eos_ids, guides=guides)

    def stats(self) -> Mapping[str, int | float | bool | list[int]]:
        """Nothing was guessed."""
        return RoundCounts().report()

    def close(self) -> None:
        """There is nothing to release."""

    def _choose(self, rows: Sequence[int], *, length: int, forced: tuple[int, ...] = ()) -> Chosen:
        logits = self._batch.forward(rows)
        allowed = logits
        if self._guides:
            masked = [self._guides[row].allowed(own, forced) for row, own in zip(rows, logits, strict=True)]
            allowed = np.stack(masked)
        histories = [self._batch.tokens(row) for row in rows]
        return Chosen(
            self._sampler(allowed, sequences=rows, histories=histories, length=length), logits, forced
        )
