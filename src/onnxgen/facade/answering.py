"""`answer_prompts`: prompts answered by one engine, as a stream of pieces."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from onnxgen.engine.shared import Pending
from onnxgen.facade.answer import Answer
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.results import Chunk
from onnxgen.facade.text_model import TextModel


def answer_prompts(
    model: TextModel, prompts: Sequence[Sequence[int]], options: GenerationOptions
) -> Iterator[Chunk]:
    """Answer prompts, given as token ids; pieces of answers that run together come in turns.

    Prompts are checked at once, the work happens while the pieces are taken.

    Raises:
        ContextLengthError: A prompt does not fit the context.
    """
    requests = [model.text.request(prompt, options) for prompt in prompts]
    answers = [model.text.start_answer(request, options, index=i) for i, request in enumerate(requests)]
    pending: list[Pending] = []

    def pieces() -> Generator[Chunk]:
        try:
            pending.extend(model.engine.submit(request) for request in requests)
            open_answers = dict(zip(pending, answers, strict=True))
            while open_answers:
                for one, answer in list(open_answers.items()):
                    if (yield from _pieces(one, answer)):
                        one.drop()
                        del open_answers[one]
        finally:
            for one in pending:
                one.drop()

    return pieces()


def answer_pieces(pending: Pending, answer: Answer) -> Generator[Chunk]:
    """The pieces of one answer, up to its end; a stop text ends it in the engine too."""
    try:
        while not (yield from _pieces(pending, answer)):
            pass
    finally:
        pending.drop()


def _pieces(pending: Pending, answer: Answer) -> Generator[Chunk, None, bool]:
    """The pieces that are there now, at least a step's; returns whether the answer has ended."""
    for event in pending.take():
        chunk = answer.push(event)
        if chunk is None:
            continue
        if chunk.finish_reason is not None:
            pending.drop()
            yield chunk
            return True
        yield chunk
    return False
