"""`OgSampler`: tokens chosen as onnxruntime-genai chooses them on a processor, seeded draws included.

With a seed its tokens are those of onnxruntime-genai 0.18, one for one, wherever the logits are: float32 arithmetic in its
order, its random numbers (`MersenneUniforms`), its order of equal logits. Per step and row: min_length, repetition_penalty,
no_repeat_ngram_size, then the best token or a drawn one. Without a seed, draws are those of the rest of this project.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.processors import ban_eos, ban_repeated_ngrams, penalize_repetition
from onnxgen.engine.sampling.sampler import Sampler
from onnxgen.errors import BackendError
from onnxgen.facade.og_draws import Candidates, MersenneUniforms, best_of, nucleus_of, prepare
from onnxgen.facade.params import sampling_from_search
from onnxgen.metadata.model_spec import SearchDefaults

Row = npt.NDArray[np.float32]
TokenArray = npt.NDArray[np.integer[Any]]


class OgSampler:
    """Chooses tokens for the rows of a `Generator`.

    Rows draw one after the other from one sequence of random numbers; a row with a single candidate takes none.

    Args:
        search: The options.
        eos_ids: The tokens that ``min_length`` bans.
    """

    def __init__(self, search: SearchDefaults, *, eos_ids: Sequence[int]) -> None:
        self._search = search
        self._eos_ids = tuple(eos_ids)
        rows = [sampling_from_search(search, stream=i) for i in range(search.batch_size)]
        self._others: Sampler | None = None
        self._numbers: MersenneUniforms | None = None
        if search.random_seed < 0 or rows[0].temperature == 0 or search.top_k == 1:
            self._others = Sampler(rows, eos_ids=eos_ids)
            return
        prepare()
        self._numbers = MersenneUniforms(search.random_seed)
        # of each step: how long sequences were, and how many numbers had been drawn
        self._steps: list[tuple[int, int]] = []
        self._drawn = 0

    def __call__(
        self,
        logits: npt.NDArray[np.float32],
        *,
        sequences: Sequence[int],
        histories: Sequence[TokenArray],
        length: int,
    ) -> list[int]:
        """Choose the next token of some of the rows.

        Args:
            logits: float32 ``[rows, vocab]``; not changed.
            sequences: Which rows these are, ascending ``[rows]``.
            histories: Their token ids so far, prompt included ``[rows]``.
            length: How long sequences are, padding included.

        Raises:
            BackendError: A row has no finite maximum (a NaN came out of the model).
        """
        if self._numbers is None:
            assert self._others is not None
            return self._others(logits, sequences=sequences, histories=histories)
        tokens: list[int] = []
        drawn = self._drawn
        for row, history in zip(logits, histories, strict=True):
            found = self._candidates(self._process(row, history), num_tokens=len(history))
            if len(found.values) == 1:
                tokens.append(found.token(0))
            else:
                tokens.append(found.pick(self._numbers[drawn]))
                drawn += 1
        self._steps.append((length, self._drawn))
        self._drawn = drawn
        return tokens

    def rewind(self, length: int) -> None:
        """Forget what was drawn when sequences had ``length`` tokens or more."""
        if self._numbers is not None:
            while self._steps and self._steps[-1][0] >= length:
                _, self._drawn = self._steps.pop()

    def _process(self, row: Row, history: TokenArray) -> Row:
        search = self._search
        early = len(history) < search.min_length
        if not (early or search.repetition_penalty != 1 or search.no_repeat_ngram_size):
            return row
        row = row.copy()
        if early:
            ban_eos(row, self._eos_ids)
        if search.repetition_penalty != 1:
            penalize_repetition(row, history, search.repetition_penalty)
        if search.no_repeat_ngram_size:
            ban_repeated_ngrams(row, history, search.no_repeat_ngram_size)
        return row

    def _candidates(self, row: Row, *, num_tokens: int) -> Candidates:
        best = row.max()
        if not np.isfinite(best):
            raise BackendError(
                f"the model returned {best} as the best logit (token {int(row.argmax())}) after {num_tokens} tokens; "
                "it is numerically broken on this backend"
            )
        search = self._search
        if search.top_k > 1:
            return best_of(row, search.top_k, top_p=search.top_p, temperature=search.temperature)
        return nucleus_of(row, top_p=search.top_p, temperature=search.temperature)
