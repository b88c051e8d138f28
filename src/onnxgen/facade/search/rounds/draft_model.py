"""`DraftModel`: a smaller model goes on from where the sequence is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from onnxgen.engine.batch import Batch
from onnxgen.facade.og_sampling import OgSampler
from onnxgen.facade.search.guide import Guide
from onnxgen.facade.search.round_counts import RoundCounts
from onnxgen.facade.search.rounds.proposals import Proposal

Int64Array = npt.NDArray[np.int64]


class DraftModel:
    """Guesses what a smaller model says. See `onnxgen.facade.search.rounds.proposals.Proposer`.

    Its tokens are chosen as the sequence's are, with the same penalties and the same sequence of random numbers.

    Args:
        batch: One row over the smaller model; the proposer's from now on.
        sampler: The sequence's.
        eos_ids: Tokens behind which nothing comes.
        counts: Told of what happens.
    """

    def __init__(
        self, batch: Batch, sampler: OgSampler, *, eos_ids: Sequence[int], counts: RoundCounts
    ) -> None:
        self._batch, self._sampler = batch, sampler
        self._eos_ids, self._counts = eos_ids, counts

    def propose(self, history: Int64Array, count: int, guide: Guide | None) -> Proposal:
        """Run the smaller model once for each token but forced ones, which are run together with the next."""
        self.settle(history)
        proposal = Proposal()
        while len(proposal.tokens) < count:
            if guide is not None and (forced := guide.forced(proposal.tokens)):
                forced = forced[: count - len(proposal.tokens)]
                self._batch.extend(0, forced)
                proposal.add_forced(forced)
                continue
            row = self._batch.forward([0])[0]
            self._counts.draft_forward_passes += 1
            if guide is not None:
                row = guide.allowed(row, proposal.tokens)
            token = self._add_guess(proposal, row)
            if guide is not None and token in self._eos_ids:
                break  # nothing of the grammar follows it
            self._batch.append(0, token)
        return proposal

    def settle(self, history: Int64Array) -> None:
        """Hold the sequence: what was guessed wrong is cut off; what is missing is run before the next guess."""
        held = self._batch.tokens(0)
        size = min(len(held), len(history))
        same = held[:size] == history[:size]
        common = size if same.all() else int(same.argmin())
        self._batch.truncate(0, common)
        self._batch.extend(0, history[common:])

    def rewind(self) -> None:
        """Nothing: the next guess begins with what is still the same."""

    def fork(self, sampler: OgSampler, counts: RoundCounts) -> DraftModel:
        """Another one of the same sequence."""
        return DraftModel(self._batch.fork(), sampler, eos_ids=self._eos_ids, counts=counts)

    def close(self) -> None:
        """Release the cache."""
        self._batch.close()

    def _add_guess(self, proposal: Proposal, row: npt.NDArray[np.float32]) -> int:
        history = self._batch.tokens(0)
        if self._sampler.is_greedy:
            token = self._sampler(row[None], sequences=[0], histories=[history], length=len(history))[0]
            proposal.add(token)
        else:
            found = self._sampler.candidates(row, history)
            token = self._sampler.draw(found)
            proposal.add(token, drawn_from=found)
        return token
