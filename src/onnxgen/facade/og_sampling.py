"""`OgSampler`: tokens chosen as onnxruntime-genai chooses them on a processor, seeded draws included.

With a seed its tokens are those of onnxruntime-genai 0.18, one for one, wherever the logits are: float32 arithmetic in its
order, its random numbers (`MersenneUniforms`), its order of equal logits. Without a seed, draws are those of the rest of this
project.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from onnxgen.engine.sampling.custom import TokenArray
from onnxgen.engine.sampling.sequence_sampler import SequenceSampler
from onnxgen.facade.og_draws import Candidates, MersenneUniforms, best_of, nucleus_of, prepare
from onnxgen.facade.params import sampling_from_search
from onnxgen.metadata.model_spec import SearchDefaults


class OgSampler:
    """Chooses tokens for the rows of a `Generator`.

    Seeded rows draw one after the other from one sequence of random numbers; a row with a single candidate takes none.

    Args:
        search: The options.
        eos_ids: The tokens that ``min_length`` bans.
        knows_shares: Also draw without a seed as with one, so that `candidates` and what is made of them can be had.

    Attributes:
        is_greedy: Nothing is drawn: the best tokens are taken.
        drawn: Words of 32 random bits that were used up. Whoever draws by `draw` or `stands` says with `keep` what for.
    """

    def __init__(self, search: SearchDefaults, *, eos_ids: Sequence[int], knows_shares: bool = False) -> None:
        options = [sampling_from_search(search, stream=i) for i in range(search.batch_size)]
        self._search, self._eos_ids, self._knows_shares = search, eos_ids, knows_shares
        self._sampler = SequenceSampler(options, eos_ids=eos_ids)
        self._numbers: MersenneUniforms | None = None
        self.is_greedy = not options[0].temperature or search.top_k == 1
        if not self.is_greedy and (search.random_seed >= 0 or knows_shares):
            prepare()
            self._numbers = MersenneUniforms(
                search.random_seed if search.random_seed >= 0 else secrets.randbits(64)
            )
        # of each step: how long sequences were, and how many words had been drawn
        self._steps: list[tuple[int, int]] = []
        self.drawn = 0

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
        before = self.drawn
        rows = self._sampler.process(logits, sequences=sequences, histories=histories)
        tokens = [self.draw(self._found(row)) for row in rows]
        self.keep(length, before)
        return tokens

    def candidates(self, row: npt.NDArray[np.float32], history: TokenArray) -> Candidates:
        """What the next token of the first row is drawn from.

        Args:
            row: Its logits, float32 ``[vocab]``; not changed.
            history: Its token ids so far.

        Raises:
            BackendError: It has no finite maximum.
        """
        return self._found(self._sampler.process(row[None], sequences=[0], histories=[history])[0])

    def draw(self, found: Candidates) -> int:
        """Draw one of some tokens."""
        if len(found.values) == 1:
            return found.token(0)
        return found.pick(self._double())

    def stands(self, token: int, *, target: Candidates, draft: Candidates) -> int:
        """A token that was drawn from ``draft``, if it may count as drawn from ``target``, or another in its place.

        It stands with probability min(1, target / draft); else what the target has more of is drawn from
        (https://arxiv.org/abs/2211.17192).
        """
        assert self._numbers is not None
        number = self._numbers.single(self.drawn)
        self.drawn += 1
        guessed = draft.share(token)
        if guessed <= 0 or number < min(np.float32(1), target.share(token) / guessed):
            return token
        return target.token(0) if len(target.values) == 1 else target.pick_beyond(draft, self._double())

    def keep(self, length: int, before: int) -> None:
        """A token was chosen for sequences of ``length`` tokens, when ``before`` words had been drawn."""
        if self._numbers is not None:
            self._steps.append((length, before))

    def rewind(self, length: int) -> None:
        """Forget what was drawn when sequences had ``length`` tokens or more."""
        while self._steps and self._steps[-1][0] >= length:
            _, self.drawn = self._steps.pop()

    def fork(self) -> OgSampler:
        """Another one, which with a seed draws what this one would, and without one draws anew."""
        other = OgSampler(self._search, eos_ids=self._eos_ids, knows_shares=self._knows_shares)
        other._steps, other.drawn = self._steps.copy(), self.drawn
        return other

    def _found(self, row: npt.NDArray[np.float32]) -> Candidates:
        search = self._search
        if search.top_k > 1:
            return best_of(row, search.top_k, top_p=search.top_p, temperature=search.temperature)
        return nucleus_of(row, top_p=search.top_p, temperature=search.temperature)

    def _double(self) -> float:
        assert self._numbers is not None
        number = self._numbers.double(self.drawn)
        self.drawn += 2
        return number
