"""Greedy steps of a backend against the clock: prompts, answers, and several sequences at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from onnxgen.backends.base import Backend, SequenceInput, pack_step


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """What answers of equal length took.

    Attributes:
        prefill_s: From the prompts to the moment when all have their first token.
        decode_s: From there to the last token.
    """

    prefill_s: float
    decode_s: float

    @property
    def total_s(self) -> float:
        """From the prompts to the last token."""
        return self.prefill_s + self.decode_s


class Answers:
    """Greedy answers to some prompts at once, driven as an engine does. Use it as a context manager.

    Args:
        backend: Executes the steps; stays the caller's.
        prompts: Token ids of each sequence.
        new_tokens: The longest answer that there is room for.
        chunk_tokens: The most prompt tokens in one step.

    Raises:
        CapabilityError: Prompt and answer do not fit the backend's context.
        BackendError: There is no memory for the cache.
    """

    def __init__(
        self, backend: Backend, prompts: Sequence[Sequence[int]], new_tokens: int, *, chunk_tokens: int
    ) -> None:
        longest = max(len(prompt) for prompt in prompts)
        self._backend = backend
        self._chunk_tokens = chunk_tokens
        self._prompts = prompts
        self._cache = backend.create_cache(num_seqs=len(prompts), num_tokens=longest + new_tokens)
        per_seq = self._cache.geometry.num_blocks // len(prompts)
        self._blocks = [range(i * per_seq, (i + 1) * per_seq) for i in range(len(prompts))]
        self._lengths = [len(prompt) for prompt in prompts]
        self._latest = [0] * len(prompts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._cache.close()

    def read_prompts(self) -> None:
        """Run the prompts in chunks, up to the first token of each answer."""
        for chunks in _chunks(self._lengths, self._chunk_tokens):
            whole = [i for i, _, end in chunks if end == self._lengths[i]]
            parts = [
                SequenceInput(
                    self._prompts[i][begin:end],
                    context_len=begin,
                    blocks=self._blocks[i],
                    logits="last" if end == self._lengths[i] else "none",
                )
                for i, begin, end in chunks
            ]
            for i, token in zip(whole, self._best(parts), strict=True):
                self._latest[i] = token

    def write(self, num_tokens: int) -> None:
        """Go on with each answer by ``num_tokens`` tokens, a token of each in a step."""
        for _ in range(num_tokens):
            parts = [
                SequenceInput([token], context_len=length, blocks=blocks)
                for token, length, blocks in zip(self._latest, self._lengths, self._blocks, strict=True)
            ]
            self._latest = self._best(parts)
            self._lengths = [length + 1 for length in self._lengths]

    def _best(self, parts: Sequence[SequenceInput]) -> list[int]:
        """The likeliest token of each wanted row."""
        return self._backend.execute(pack_step(parts), self._cache).logits.argmax(axis=1).tolist()


def time_answers(
    backend: Backend,
    prompts: Sequence[Sequence[int]],
    new_tokens: int,
    *,
    chunk_tokens: int,
    clock: Callable[[], float] = time.perf_counter,
) -> AnswerTimes:
    """Answer all prompts at once, ``new_tokens`` each, against the clock; making the cache is not timed.

    Raises:
        CapabilityError: Prompt and answer do not fit the backend's context.
        BackendError: There is no memory, or a step failed.
    """
    with Answers(backend, prompts, new_tokens, chunk_tokens=chunk_tokens) as answers:
        started = clock()
        answers.read_prompts()
        first = clock()
        answers.write(new_tokens - 1)
        return AnswerTimes(first - started, clock() - first)


def _chunks(lengths: Sequence[int], budget: int) -> Iterator[list[tuple[int, int, int]]]:
    """Prompts in steps of at most ``budget`` tokens: lists of sequence, begin and end.

    ::

        lengths 5, 3, budget 4:   [(0, 0, 4)]   [(0, 4, 5), (1, 0, 3)]
    """
    step: list[tuple[int, int, int]] = []
    room = budget
    for i, length in enumerate(lengths):
        begin = 0
        while begin < length:
            end = min(length, begin + room)
            step.append((i, begin, end))
            room -= end - begin
            begin = end
            if not room:
                yield step
                step, room = [], budget
    if step:
        yield step
