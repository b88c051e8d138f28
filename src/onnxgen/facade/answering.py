"""`answer_prompts`: prompts answered by one engine, as a stream of pieces."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from onnxgen.engine.request import EngineRequest
from onnxgen.engine.shared import SharedEngine
from onnxgen.errors import OnnxgenError
from onnxgen.facade.answer import Answer
from onnxgen.facade.answers import Answers
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
    return answer_requests(model.engine, requests, answers)


def answer_requests(
    engine: SharedEngine, requests: Sequence[EngineRequest], answers: Sequence[Answer]
) -> Generator[Chunk]:
    """The pieces of answers as they come, up to the end of the last; a stop text ends one in the engine too."""
    index_of: dict[int, int] = {}
    growing = Answers(
        answers, stop=lambda event: engine.cancel(event.request_id, index=event.index, reason="stop")
    )
    try:
        for index, request in enumerate(requests):
            index_of[engine.submit(request)] = index
        while not growing.all_ended:
            for event in engine.take(index_of):
                piece = growing.hear(event, index_of[event.request_id])
                if isinstance(piece, OnnxgenError):
                    raise piece
                if piece is not None:
                    yield piece
    finally:
        engine.drop(index_of)
