"""`Generation`: answers to a fixed set of prompts, one token per prompt and step."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from onnxgen.engine.batch import Batch
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.sampler import Sampler
from onnxgen.errors import ContextLengthError, OptionError

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt and how it is answered.

    Attributes:
        prompt: Token ids, at least one.
        sampling: How tokens are chosen.
        max_new_tokens: The answer's length at most; None is bounded by the batch's ``max_tokens`` only.
        ignore_eos: End-of-sequence tokens are tokens like others.
    """

    prompt: Sequence[int]
    sampling: SamplingOptions
    max_new_tokens: int | None = None
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One step of one answer.

    Attributes:
        index: Which request.
        token_id: The new token; an end-of-sequence token that ended the answer is reported but not part of it.
        finish_reason: Set with the answer's last event.
        is_eos: Whether the token ended the answer, so that it is not part of it.
    """

    index: int
    token_id: int
    finish_reason: FinishReason | None = None
    is_eos: bool = False


class Generation:
    """Runs requests on the rows of a batch, request ``i`` on row ``i``.

    Tokens that a row already holds and that begin the request's prompt are not computed again.

    Args:
        batch: Has at least as many rows as there are requests.
        requests: What to answer.
        eos_ids: Tokens that end an answer.

    Raises:
        ContextLengthError: A prompt leaves no room for an answer.
        OptionError: A prompt is empty.
    """

    def __init__(self, batch: Batch, requests: Sequence[Request], *, eos_ids: Collection[int]) -> None:
        self._batch = batch
        self._requests = tuple(requests)
        self._eos_ids = frozenset(eos_ids)
        self._sampler = Sampler(
            [r.sampling for r in requests],
            eos_ids=sorted(self._eos_ids),
            prompt_tokens=[len(r.prompt) for r in requests],
        )
        self._produced = [0] * len(requests)
        self._active = list(range(len(requests)))
        for index, request in enumerate(requests):
            self._check(index, request)
        self._reused = tuple(self._place(i, r) for i, r in enumerate(requests))

    @property
    def reused_tokens(self) -> tuple[int, ...]:
        """For each request, how many tokens of its prompt the cache already held."""
        return self._reused

    @property
    def active(self) -> tuple[int, ...]:
        """Indices of the requests that are not finished."""
        return tuple(self._active)

    def step(self) -> list[TokenEvent]:
        """Produce one token of every unfinished answer; the first step also processes the prompts.

        Raises:
            BackendError: The step failed; calling again tries it again.
        """
        rows = self.active
        if not rows:
            return []
        logits = self._batch.forward(rows)
        tokens = self._sampler(logits, sequences=rows, histories=[self._batch.tokens(i) for i in rows])
        return [self._commit(i, token) for i, token in zip(rows, tokens, strict=True)]

    def finish(self, index: int) -> None:
        """Take an answer out of the following steps. Finished ones stay as they are."""
        if index in self._active:
            self._active.remove(index)

    def _check(self, index: int, request: Request) -> None:
        length = len(request.prompt)
        if length == 0:
            raise OptionError(f"prompt {index} is empty; there is nothing to continue")
        if length >= self._batch.max_tokens:
            raise ContextLengthError(
                f"prompt {index} has {length} tokens; with room for at least one new token it must have fewer "
                f"than {self._batch.max_tokens}"
            )

    def _place(self, index: int, request: Request) -> int:
        """Make a row hold the prompt; returns how many of its tokens need no computing."""
        prompt = np.asarray(request.prompt, np.int64)
        held = self._batch.tokens(index)
        shared = min(len(held), len(prompt))
        differs = held[:shared] != prompt[:shared]
        common = int(np.argmax(differs)) if differs.any() else shared
        self._batch.truncate(index, common)
        self._batch.extend(index, prompt[common:])
        return min(self._batch.cached(index), len(prompt) - 1)

    def _commit(self, index: int, token: int) -> TokenEvent:
        request = self._requests[index]
        if token in self._eos_ids and not request.ignore_eos:
            self.finish(index)
            return TokenEvent(index, token, "stop", is_eos=True)
        self._batch.append(index, token)
        self._produced[index] += 1
        full = self._batch.length(index) == self._batch.max_tokens
        if full or self._produced[index] == request.max_new_tokens:
            self.finish(index)
            return TokenEvent(index, token, "length")
        return TokenEvent(index, token)
