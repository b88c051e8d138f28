"""`answer_prompts`: several prompts answered a few at a time, as a stream of pieces."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from onnxgen.engine.batch import Batch
from onnxgen.engine.generation import Generation, Request, TokenEvent
from onnxgen.errors import BackendError
from onnxgen.facade.answer import Answer
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.results import Chunk
from onnxgen.facade.text_model import TextModel

MAX_ROWS = 8
"""Prompts that are answered together at most."""


def answer_prompts(
    model: TextModel, prompts: Sequence[Sequence[int]], options: GenerationOptions
) -> Iterator[Chunk]:
    """Answer prompts, given as token ids; pieces of answers that run together come in turns.

    Prompts are checked at once, the work happens while the pieces are taken.

    Raises:
        ContextLengthError: A prompt does not fit the context.
    """
    requests = [model.request(prompt, options) for prompt in prompts]
    answers = [model.start_answer(request, options, index=i) for i, request in enumerate(requests)]
    return _in_groups(model, requests, answers)


def _in_groups(model: TextModel, requests: Sequence[Request], answers: Sequence[Answer]) -> Generator[Chunk]:
    for first in range(0, len(requests), MAX_ROWS):
        group = slice(first, first + MAX_ROWS)
        yield from _together(model, requests[group], answers[group])


def _together(model: TextModel, requests: Sequence[Request], answers: Sequence[Answer]) -> Generator[Chunk]:
    """Answer a few prompts in one batch, or in two where one cannot be had (memory, most often)."""
    limit = model.spec.context_length
    longest = max(limit if r.max_new_tokens is None else len(r.prompt) + r.max_new_tokens for r in requests)
    batch = model.open_batch(num_rows=len(requests), max_tokens=longest)
    try:
        generation = Generation(batch, requests, eos_ids=model.spec.tokens.eos)
        for answer in answers:
            answer.begin_prefill(cached_tokens=0)
        events = _first_step(generation, batch)
        if events is not None:
            while events:
                yield from _pieces(events, answers, generation)
                events = generation.step()
            return
    finally:
        batch.close()
    half = len(requests) // 2
    yield from _together(model, requests[:half], answers[:half])
    yield from _together(model, requests[half:], answers[half:])


def _first_step(generation: Generation, batch: Batch) -> list[TokenEvent] | None:
    """The first tokens; None if the backend refuses so many rows at once."""
    try:
        return generation.step()
    except BackendError:
        if batch.num_rows == 1:
            raise
        return None


def _pieces(
    events: Sequence[TokenEvent], answers: Sequence[Answer], generation: Generation
) -> Iterator[Chunk]:
    # the indices of events are rows of the batch, those of pieces are the caller's
    for event in events:
        chunk = answers[event.index].push(event)
        if chunk is None:
            continue
        if chunk.finish_reason is not None:
            generation.finish(event.index)
        yield chunk
