"""`Tracked`: a request while any of its samples is unfinished."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from onnxgen.engine.constraints.compiler import CompiledGrammar
from onnxgen.engine.embedded_tokens import EmbeddedTokens
from onnxgen.engine.prompt_scores import PromptScores
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sample import Sample
from onnxgen.engine.sampling.logprobs import TokenLogprobs
from onnxgen.engine.tokens import TokenBuffer
from onnxgen.kvcache.base import Extra


class Tracked:
    """A request while any of its samples is unfinished.

    Until its prompt is computed one sequence stands for all samples; then the others fork off it.

    Args:
        request_id: Its number.
        request: What was asked for.
        prompt: Its token ids, int64 ``[tokens]``; kept where they are to be scored.
        deadline: Reading of the engine's clock at which it ends; None: never.
        accepted_s: Reading of `time.perf_counter` when it was accepted.
        adapter_digest: Of the adapter that it is computed with.
        adapter_lane: What keeps it apart from other requests in steps because of its adapter.
        grammar: What its answers must look like; None: like anything.

    Attributes:
        lane: What keeps it apart from others in steps.
        embedded: What the model reads in place of its prompt's ids; None: nothing.
        extra: What its cached content depends on besides tokens.
        prompt_scores: How probable its prompt is; None: nobody asks, or it was told.
        open: Indices of the samples that have not ended, in order.
        unforked: Those of them that have no sequence of their own yet.
    """

    __slots__ = (
        "_options",
        "accepted_s",
        "deadline",
        "embedded",
        "extra",
        "grammar",
        "id",
        "lane",
        "open",
        "prompt_scores",
        "request",
        "unforked",
    )

    def __init__(
        self,
        request_id: int,
        request: EngineRequest,
        prompt: npt.NDArray[np.int64],
        *,
        deadline: float | None,
        accepted_s: float,
        adapter_digest: str | None = None,
        adapter_lane: Hashable = None,
        grammar: CompiledGrammar | None = None,
    ) -> None:
        self.id = request_id
        self.request = request
        self.grammar = grammar
        self.deadline = deadline
        self.accepted_s = accepted_s
        self.lane = adapter_lane
        self.embedded = _embedded(request)
        own = (request.salt, adapter_digest, None if self.embedded is None else self.embedded.digest())
        self.extra: Extra = None if own == (None, None, None) else own
        self.prompt_scores = (
            None
            if request.prompt_logprobs is None
            else PromptScores(prompt, start=request.prompt_logprobs_start, top=request.prompt_logprobs)
        )
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
            tokens.embedded = self.embedded
            forks.append(self._sample(index, tokens, parent.num_tokens))
            forks[-1].cached_tokens = parent.cached_tokens
            forks[-1].queued_s = parent.queued_s
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

    def take_prompt_scores(self) -> tuple[TokenLogprobs | None, ...] | None:
        """How probable the prompt is, once: None where it is not known yet, was told, or was not asked for."""
        scores = self.prompt_scores
        if scores is None or scores.next_row is not None:
            return None
        self.prompt_scores = None
        return scores.told()

    def _sample(self, index: int, tokens: TokenBuffer, prompt_tokens: int) -> Sample:
        return Sample(
            self.id,
            index,
            request=self.request,
            tokens=tokens,
            prompt_tokens=prompt_tokens,
            options=self._options[index],
            processors=tuple(self.request.processors),
            sampler=self.request.sampler,
            grammar=None if self.grammar is None else self.grammar.new_state(),
        )


def _embedded(request: EngineRequest) -> EmbeddedTokens | None:
    embeds = request.prompt_embeds
    return None if embeds is None else EmbeddedTokens(np.arange(len(embeds)), embeds.copy())
