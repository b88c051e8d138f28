"""`Tracked`: a request while any of its samples is unfinished."""

from __future__ import annotations

from collections.abc import Sequence

from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sample import Sample
from onnxgen.engine.tokens import TokenBuffer


class Tracked:
    """A request while any of its samples is unfinished.

    Until its prompt is computed one sequence stands for all samples; then the others fork off it.

    Args:
        request_id: Its number.
        request: What was asked for.
        deadline: Reading of the engine's clock at which it ends; None: never.

    Attributes:
        open: Indices of the samples that have not ended, in order.
        unforked: Those of them that have no sequence of their own yet.
    """

    __slots__ = ("_options", "deadline", "id", "open", "request", "unforked")

    def __init__(self, request_id: int, request: EngineRequest, *, deadline: float | None) -> None:
        self.id = request_id
        self.request = request
        self.deadline = deadline
        self.open = list(range(request.n))
        self.unforked = list(range(1, request.n))
        self._options = request.sampling.for_samples(request.n)

    def first_sample(self, tokens: TokenBuffer) -> Sample:
        """The sample whose sequence computes the prompt."""
        return self._sample(0, tokens, len(tokens))

    def fork(self, parent: Sample) -> Sequence[Sample]:
        """The samples that have no sequence yet, each with a copy of the prompt."""
        forks: list[Sample] = []
        for index in self.unforked:
            tokens = TokenBuffer()
            tokens.extend(parent.history)
            forks.append(self._sample(index, tokens, parent.num_tokens))
            forks[-1].cached_tokens = parent.cached_tokens
        self.unforked = []
        return forks

    def drop_unforked(self, sample: Sample, index: int) -> bool:
        """End a sample that has no sequence of its own; False if it has one.

        The sequence that computes the prompt goes on for another sample where there is one.
        """
        if sample.index == index and self.unforked:
            sample.index = self.unforked[0]
            sample.options = self._options[sample.index]
            index = sample.index
        if index not in self.unforked:
            return False
        self.unforked.remove(index)
        return True

    def _sample(self, index: int, tokens: TokenBuffer, prompt_tokens: int) -> Sample:
        return Sample(
            self.id,
            index,
            tokens=tokens,
            prompt_tokens=prompt_tokens,
            options=self._options[index],
            processors=tuple(self.request.processors),
        )
