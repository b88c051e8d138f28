"""Greedy steps of a backend against the clock: prompts, answers, and several sequences at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

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


class TimedSteps:
    """Steps of one backend, driven as an engine does: prompts in chunks, then a token of each sequence at once.

    Args:
        backend: Executes the steps; stays the caller's.
        chunk_tokens: The most prompt tokens in one step.
        clock: Seconds from any beginning.
    """

    def __init__(
        self, backend: Backend, *, chunk_tokens: int, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._backend = backend
        self._chunk_tokens = chunk_tokens
        self._clock = clock

    def answer(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> AnswerTimes:
        """Answer all prompts at once, ``new_tokens`` each; making the cache is not timed.

        Raises:
            CapabilityError: Prompt and answer do not fit the backend's context.
            BackendError: There is no memory, or a step failed.
        """
        longest = max(len(prompt) for prompt in prompts)
        cache = self._backend.create_cache(num_seqs=len(prompts), num_tokens=longest + new_tokens)
        try:
            per_seq = cache.geometry.num_blocks // len(prompts)
            blocks = [range(i * per_seq, (i + 1) * per_seq) for i in range(len(prompts))]
            started = self._clock()
            latest = [0] * len(prompts)
            for chunks in _chunks([len(prompt) for prompt in prompts], self._chunk_tokens):
                parts = [
                    SequenceInput(
                        prompts[i][begin:end],
                        context_len=begin,
                        blocks=blocks[i],
                        logits="last" if end == len(prompts[i]) else "none",
                    )
                    for i, begin, end in chunks
                ]
                best = self._backend.execute(pack_step(parts), cache).logits.argmax(axis=1).tolist()
                whole = [i for i, _, end in chunks if end == len(prompts[i])]
                for i, token in zip(whole, best, strict=True):
                    latest[i] = token
            first = self._clock()
            for number in range(new_tokens - 1):
                parts = [
                    SequenceInput([token], context_len=len(prompt) + number, blocks=own)
                    for token, prompt, own in zip(latest, prompts, blocks, strict=True)
                ]
                latest = self._backend.execute(pack_step(parts), cache).logits.argmax(axis=1).tolist()
            ended = self._clock()
        finally:
            cache.close()
        return AnswerTimes(first - started, ended - first)


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
