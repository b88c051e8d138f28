"""`answer_with_beams`: questions answered by a search for the likeliest answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from onnxgen.engine.beams.answers import BeamAnswer, BeamModel, beam_answers
from onnxgen.engine.beams.options import BeamOptions
from onnxgen.engine.events import EngineEvent
from onnxgen.errors import OptionError
from onnxgen.facade.answer import Answer
from onnxgen.facade.question import Question
from onnxgen.facade.results import Chunk, Timings

_NOT_WITH_BEAMS = {
    "stop": "end answers by stop_token_ids",
    "logprobs": "an answer's score has the sum",
    "prompt_logprobs": "LLM.score judges texts",
    "sampler": "beams choose by themselves",
    "ignore_eos": "set min_new_tokens",
}


def check_beam_question(question: Question) -> None:
    """Refuse what a beam search cannot do.

    Raises:
        OptionError: Naming the option.
    """
    for name, instead in _NOT_WITH_BEAMS.items():
        value = getattr(question.options, name)
        if value is not None and value is not False and value != ():
            raise OptionError(f"{name}={value!r:.60} does not go together with beams; {instead}")
    if question.request.grammar is not None:
        raise OptionError(
            "beams cannot be held to a grammar, which response_format and tools ask for; leave num_beams out, or offer "
            "tools with tool_choice='none'"
        )


def answer_with_beams(
    model: BeamModel,
    questions: Sequence[Question],
    answers: Sequence[Answer],
    beams: BeamOptions,
    *,
    clock: Callable[[], float],
) -> Iterator[Chunk]:
    """One piece for each answer, when its question's search has ended.

    Args:
        model: What to run.
        questions: What is asked, all with the same options.
        answers: Fresh ones, ``num_return_sequences`` for each question.
        beams: How to search.
        clock: Seconds from any beginning, for deadlines.
    """
    waiting, began = iter(answers), clock()
    for _, alike in itertools.groupby(questions, key=lambda question: question.request.sampling):
        together = list(alike)
        with model.backend.adapters.held(together[0].request.adapter):
            found = _search(model, together, beams, elapsed_s=lambda: clock() - began)
        for best in found:
            its_answers = list(itertools.islice(waiting, beams.num_return_sequences))
            for one, answer in zip(best, its_answers, strict=False):
                yield _told(one, answer)


def _search(
    model: BeamModel, questions: Sequence[Question], beams: BeamOptions, *, elapsed_s: Callable[[], float]
) -> list[list[BeamAnswer]]:
    """The best answers to questions that differ in their prompts only."""
    request, limit = questions[0].request, questions[0].options.deadline_s
    return beam_answers(
        model,
        [question.request.prompt for question in questions],
        beams,
        max_new_tokens=request.max_new_tokens,
        sampling=replace(request.sampling, temperature=0.0),
        stop_ids=request.stop_token_ids,
        processors=request.processors,
        adapter=request.adapter,
        cancelled=lambda: limit is not None and elapsed_s() >= limit,
    )


def _told(found: BeamAnswer, answer: Answer) -> Chunk:
    pieces = [answer.push(EngineEvent(0, 0, token)) for token in found.token_ids]
    # nobody but a deadline cancels this search
    last = answer.finish("deadline" if found.finish_reason == "cancelled" else found.finish_reason)
    assert last.completion is not None
    text = "".join(piece.text for piece in pieces if piece is not None)
    return replace(
        last,
        text=text + last.text,
        reasoning=last.completion.reasoning,
        token_ids=found.token_ids,
        completion=replace(
            last.completion,
            score=found.score,
            timings=Timings(last.completion.timings.load_s, None, None, None),  # all of it came at once
        ),
    )
