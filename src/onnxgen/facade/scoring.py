"""Texts that are judged instead of continued: requests for it, scores of it, and windows over long texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.checks import check_integer
from onnxgen.engine.sampling.logprobs import MAX_TOP_LOGPROBS
from onnxgen.errors import OptionError
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.model_text import ModelText
from onnxgen.facade.prompts import Prompt, prompts_of
from onnxgen.facade.question import Question
from onnxgen.facade.results import Completion, Score


def score_questions(
    text: ModelText, texts: Sequence[Prompt], *, context: object = None, top_logprobs: int = 0
) -> list[Question]:
    """Texts to judge.

    Args:
        text: The model's.
        texts: Texts or token ids.
        context: What stands before each text, or before all of them, and is not judged, as text or token ids; None:
            nothing. Its tokens are those it has alone, as are the text's.
        top_logprobs: So many of the most probable tokens at each place, too.

    Raises:
        OptionError: A text has nothing to judge, there are not as many contexts as texts, or either is something else.
        TokenIdError: A token id is outside the vocabulary.
        ContextLengthError: A text and its context do not fit the model's context.
    """
    check_integer("top_logprobs", top_logprobs, low=0, high=MAX_TOP_LOGPROBS)
    contexts, is_one = prompts_of("" if context is None else context, name="context")
    if is_one:
        contexts *= len(texts)
    if len(contexts) != len(texts):
        raise OptionError(f"{len(contexts)} contexts were given for {len(texts)} texts")
    return [
        _score_question(text, judged, before, top_logprobs)
        for judged, before in zip(texts, contexts, strict=True)
    ]


def _score_question(text: ModelText, judged: Prompt, context: Prompt, top_logprobs: int) -> Question:
    before = text.encode_prompt(context) if context else []
    if before and isinstance(judged, str):
        after = text.tokenizer.encode(judged)
    else:
        after = text.encode_prompt(judged)
    if len(before) + len(after) < 2 or not after:
        raise OptionError(f"{judged!r:.60} has no token that could be judged by those before it")
    return _question([*before, *after], start=max(len(before), 1), top_logprobs=top_logprobs)


def score_of(completion: Completion) -> Score:
    """What judging a text came to."""
    assert completion.prompt_logprobs is not None
    return Score(tuple(token for token in completion.prompt_logprobs if token is not None))


@dataclass(frozen=True, slots=True)
class Window:
    """Part of a text that is judged at once.

    Attributes:
        begin: Its first token.
        judged: The first token in it that counts; those before it are its context.
        end: One more than its last token.
    """

    begin: int
    judged: int
    end: int


def windows(num_tokens: int, *, window: int, stride: int) -> Iterator[Window]:
    """Windows over a text, such that each token but the first counts once, with as much context as fits.

    Args:
        num_tokens: Length of the text.
        window: Tokens of a window at most.
        stride: Tokens that count in each window but the first.
    """
    judged = 1
    while judged < num_tokens:
        end = min(num_tokens, window if judged == 1 else judged + stride)
        yield Window(max(0, end - window), judged, end)
        judged = end


def perplexity_questions(
    text: ModelText, ids: Sequence[int], *, window: int | None, stride: int | None
) -> list[Question]:
    """Questions whose scores together are those of a text of any length.

    Raises:
        OptionError: The window or the stride is out of range, or there is nothing to judge.
    """
    limit = text.spec.context_length
    window = limit if window is None else check_integer("window", window, low=2, high=limit)
    stride = window // 2 if stride is None else check_integer("stride", stride, low=1, high=window - 1)
    if len(ids) < 2:
        raise OptionError(f"a text of {len(ids)} tokens has none that could be judged by those before it")
    return [
        _question(list(ids[w.begin : w.end]), start=w.judged - w.begin, top_logprobs=0)
        for w in windows(len(ids), window=window, stride=stride)
    ]


def perplexity_of(scores: Sequence[Score]) -> float:
    """``exp`` of the mean negative log probability of a token."""
    total, count = math.fsum(score.logprob for score in scores), sum(len(score.tokens) for score in scores)
    return math.exp(-total / count)


def _question(ids: list[int], *, start: int, top_logprobs: int) -> Question:
    request = EngineRequest(ids, max_new_tokens=0, prompt_logprobs=top_logprobs, prompt_logprobs_start=start)
    return Question(
        request, GenerationOptions(num_beams=1)
    )  # nothing is answered, whatever a folder searches with
