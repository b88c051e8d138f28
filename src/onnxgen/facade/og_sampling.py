"""`OgSampler`: tokens chosen as onnxruntime-genai chooses them on a processor, seeded draws included.

With a seed its tokens are those of onnxruntime-genai 0.18, one for one, wherever the logits are: float32 arithmetic in its
order, its random numbers (`MersenneUniforms`), its order of equal logits. Without a seed, draws are those of the rest of this
project.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.custom import TokenArray
from onnxgen.engine.sampling.sequence_sampler import SequenceSampler
from onnxgen.facade.og_draws import MersenneUniforms, best_of, nucleus_of, prepare
from onnxgen.facade.params import sampling_from_search
from onnxgen.metadata.model_spec import SearchDefaults


class OgSampler:
    """Chooses tokens for the rows of a `Generator`.

    Seeded rows draw one after the other from one sequence of random numbers; a row with a single candidate takes none.

    Args:
        search: The options.
        eos_ids: The tokens that ``min_length`` bans.
    """

    def __init__(self, search: SearchDefaults, *, eos_ids: Sequence[int]) -> None:
        options = [sampling_from_search(search, stream=i) for i in range(search.batch_size)]
        self._search, self._eos_ids = search, eos_ids
        self._sampler = SequenceSampler(options, eos_ids=eos_ids)
        self._numbers: MersenneUniforms | None = None
        if search.random_seed >= 0 and options[0].temperature and search.top_k != 1:
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
            return self._sampler(logits, sequences=sequences, histories=histories)
        search = self._search
        tokens: list[int] = []
        drawn = self._drawn
        for row in self._sampler.process(logits, sequences=sequences, histories=histories):
            if search.top_k > 1:
                found = best_of(row, search.top_k, top_p=search.top_p, temperature=search.temperature)
            else:
                found = nucleus_of(row, top_p=search.top_p, temperature=search.temperature)
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
        while self._steps and self._steps[-1][0] >= length:
            _, self._drawn = self._steps.pop()

    def fork(self) -> OgSampler:
        """Another one, which with a seed draws what this one would, and without one draws anew."""
        other = OgSampler(self._search, eos_ids=self._eos_ids)
        other._steps, other._drawn = self._steps.copy(), self._drawn
        return other
