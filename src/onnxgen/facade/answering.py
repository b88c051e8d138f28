"""`answer_questions`: questions answered by one engine, as a stream of pieces."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from onnxgen.engine.shared import SharedEngine
from onnxgen.errors import OnnxgenError
from onnxgen.facade.answer import Answer
from onnxgen.facade.answers import Answers
from onnxgen.facade.model_text import ModelText
from onnxgen.facade.question import Question
from onnxgen.facade.results import Chunk


def start_answers(text: ModelText, questions: Sequence[Question]) -> list[Answer]:
    """Answers to questions that are asked now, those to the same question one after the other."""
    answers: list[Answer] = []
    for question in questions:
        answers += text.start_answers(question, first=len(answers))
    return answers


def answer_questions(
    engine: SharedEngine, questions: Sequence[Question], answers: Sequence[Answer]
) -> Generator[Chunk]:
    """The pieces of answers as they come, up to the end of the last; a stop text ends one in the engine too.

    Args:
        engine: Does the work, while the pieces are taken.
        questions: What is asked.
        answers: As `start_answers` gives them.
    """
    first_of: dict[int, int] = {}
    growing = Answers(
        answers, stop=lambda event: engine.cancel(event.request_id, index=event.index, reason="stop")
    )
    try:
        first = 0
        for question in questions:
            first_of[engine.submit(question.request)] = first
            first += question.request.n
        while not growing.all_ended:
            for event in engine.take(first_of):
                piece = growing.hear(event, first_of[event.request_id] + event.index)
                if isinstance(piece, OnnxgenError):
                    raise piece
                if piece is not None:
                    yield piece
    finally:
        engine.drop(first_of)
