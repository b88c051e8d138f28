"""`Sampler`: rows of logits in, one token per row out, each row by its own options."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.candidates import candidates
from onnxgen.engine.sampling.draw import fresh_seed, pick, uniform
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.processors import (
    TokenArray,
    ban_eos,
    ban_repeated_ngrams,
    penalize_repetition,
)
from onnxgen.errors import BackendError
from onnxgen.foundations.reused_arrays import ReusedArrays


class Sampler:
    """Chooses tokens for a batch whose sequences may have different options.

    A row's token depends on that row's logits, history and options only.

    Args:
        options: One per sequence. Those without a seed get a fresh one here, once.
        eos_ids: The tokens that ``min_length`` bans.
    """

    def __init__(self, options: Sequence[SamplingOptions], *, eos_ids: Sequence[int]) -> None:
        self._options = [o if o.seed is not None else replace(o, seed=fresh_seed()) for o in options]
        self._eos_ids = tuple(eos_ids)
        self._changed = ReusedArrays()

    def __call__(
        self,
        logits: npt.NDArray[np.float32],
        *,
        sequences: Sequence[int],
        histories: Sequence[TokenArray],
    ) -> list[int]:
        """Choose the next token of some of the sequences.

        Args:
            logits: float32 ``[rows, vocab]``; not changed.
            sequences: Which sequence each row belongs to ``[rows]``.
            histories: Token ids of each row's sequence so far, prompt included ``[rows]``.

        Raises:
            BackendError: A row has no finite maximum (a NaN came out of the model).
        """
        return [
            self._choose(row, self._options[i], history)
            for row, i, history in zip(logits, sequences, histories, strict=True)
        ]

    def _choose(self, row: npt.NDArray[np.float32], options: SamplingOptions, history: TokenArray) -> int:
        row = self._process(row, options, history)
        best = int(row.argmax())  # the first maximum, or the first NaN
        if not math.isfinite(row[best]):
            raise BackendError(
                f"the model returned {row[best]} as the best logit (token {best}) after {len(history)} tokens; "
                "it is numerically broken on this backend"
            )
        if options.greedy:
            return best
        ids, weights = candidates(
            row, temperature=options.temperature, top_k=options.top_k, top_p=options.top_p
        )
        assert options.seed is not None
        return pick(ids, weights, uniform(options.seed, options.stream, len(history)))

    def _process(
        self, row: npt.NDArray[np.float32], options: SamplingOptions, history: TokenArray
    ) -> npt.NDArray[np.float32]:
        penalize = options.repetition_penalty != 1
        early = len(history) < options.min_length
        if not (penalize or early or options.no_repeat_ngram_size):
            return row
        changed = self._changed.take(row.shape)
        changed[...] = row
        row = changed
        if penalize:
            penalize_repetition(row, history, options.repetition_penalty)
        # bans last, so that no penalty lifts a banned token again
        if early:
            ban_eos(row, self._eos_ids)
        if options.no_repeat_ngram_size:
            ban_repeated_ngrams(row, history, options.no_repeat_ngram_size)
        return row
