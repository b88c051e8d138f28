"""`beam_answers`: a beam search from prompts to answers, on a cache of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from onnxgen.backends.base import Backend
from onnxgen.engine.batch import Batch
from onnxgen.engine.beams.hypotheses import Hypothesis
from onnxgen.engine.beams.options import TRANSFORMERS, BeamOptions, BeamRules
from onnxgen.engine.beams.processing import BeamProcessing, Processor
from onnxgen.engine.beams.search import BeamSearch
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.errors import ContextLengthError, LogitsProcessorError

_ROWS_AT_ONCE = 32
"""Beams in one step, unless a prompt has more: more gain little and hold more of the cache."""

_FIRST_ROOM = 256
"""New tokens that the cache has room for at first; it grows when answers do."""


@dataclass(frozen=True, slots=True)
class BeamAnswer:
    """One of a prompt's best answers.

    Attributes:
        token_ids: The answer, without the token that ended it.
        score: What it is ranked by: ``sum_logprobs`` over its length to the power of ``length_penalty``.
        sum_logprobs: Sum of the log probabilities of its tokens, that which ended it included.
        finish_reason: "eos": an end-of-sequence token of the model, "stop": one of the request's stop tokens,
            "length": the most new tokens or the end of the context, "cancelled": the search was cancelled.
    """

    token_ids: tuple[int, ...]
    score: float
    sum_logprobs: float
    finish_reason: Literal["eos", "stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class BeamModel:
    """What a beam search must know of a model.

    Attributes:
        backend: Executes the steps; stays the caller's.
        eos_ids: Tokens that end a sequence.
        num_tokens: Ids from here on are padding of the vocabulary, and never chosen; None: there is none.
        unused_ids: Likewise, holes among the others.
        chunk_tokens: The most prompt tokens that one step processes.
        rope_switch_length: See `DecoderModel.rope_switch_length`.
    """

    backend: Backend
    eos_ids: Sequence[int]
    num_tokens: int | None = None
    unused_ids: Sequence[int] = ()
    chunk_tokens: int = 512
    rope_switch_length: int | None = None


def beam_answers(
    model: BeamModel,
    prompts: Sequence[Sequence[int]],
    options: BeamOptions,
    *,
    max_new_tokens: int | None = None,
    sampling: SamplingOptions | None = None,
    stop_ids: Sequence[int] = (),
    processors: Sequence[Processor] = (),
    adapter: str | None = None,
    rules: BeamRules = TRANSFORMERS,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[list[BeamAnswer]]:
    """The best answers to each prompt, best first.

    Args:
        model: What to run.
        prompts: Token ids of each, at least one.
        options: Beams, groups, and how answers are ranked.
        max_new_tokens: The longest answer, at least 1; None: up to the end of the context.
        sampling: Penalties and bans, which each beam gets for its own tokens; nothing may be drawn.
        stop_ids: More tokens that end a sequence; not banned by ``min_length``.
        processors: Called for each beam. Under `BeamRules` that process log probabilities they get these.
        adapter: One of the backend's, under which all is computed; whoever names it keeps it loaded.
        rules: How to count.
        cancelled: Asked before each step; the answers are then the best so far.

    Returns:
        Up to ``num_return_sequences`` answers of each prompt; fewer where the model had fewer to give.

    Raises:
        OptionError: Options do not fit each other.
        TokenIdError: An id is outside the vocabulary.
        ContextLengthError: A prompt leaves no room for an answer.
        BackendError: A step failed.
        LogitsProcessorError: A processor failed, or left no token to choose.
    """
    processing = BeamProcessing(
        sampling or SamplingOptions(),
        rules,
        vocab_size=model.backend.vocab_size,
        eos_ids=model.eos_ids,
        num_tokens=model.num_tokens,
        unused_ids=model.unused_ids,
        processors=processors,
    )
    context = model.backend.capabilities.max_context
    rooms = [_room(len(prompt), context, max_new_tokens) for prompt in prompts]
    together = max(_ROWS_AT_ONCE // options.num_beams, 1)
    answers: list[list[BeamAnswer]] = []
    for start in range(0, len(prompts), together):
        part = slice(start, start + together)
        most = max(len(p) + room for p, room in zip(prompts[part], rooms[part], strict=True))
        batch = Batch(
            model.backend,
            num_rows=len(prompts[part]) * options.num_beams,
            max_tokens=most,
            first_tokens=min(most, max(map(len, prompts[part])) + _FIRST_ROOM),
            chunk_tokens=model.chunk_tokens,
            rope_switch_length=model.rope_switch_length,
        )
        batch.use_adapter(adapter)
        with closing(batch):
            search = BeamSearch(
                batch,
                prompts[part],
                max_new_tokens=rooms[part],
                options=options,
                rules=rules,
                eos_ids=[*model.eos_ids, *stop_ids],
                processing=processing,
            )
            while not search.done and not cancelled():
                search.step()
            answers += _answers(search, len(prompts[part]), model.eos_ids)
    return answers


def _room(prompt_tokens: int, context: int, max_new_tokens: int | None) -> int:
    room = context - prompt_tokens
    if room < 1:
        raise ContextLengthError(
            f"a prompt of {prompt_tokens} tokens leaves no room for an answer: the model's context is {context} tokens"
        )
    return room if max_new_tokens is None else min(max_new_tokens, room)


def _answers(search: BeamSearch, num_prompts: int, eos_ids: Sequence[int]) -> Iterator[list[BeamAnswer]]:
    for prompt in range(num_prompts):
        done = search.is_done(prompt)
        found = search.results(prompt)
        if not found:
            raise LogitsProcessorError(
                f"prompt {prompt} has no answer: penalties, bans or logits processors left no token to choose to any beam"
            )
        yield [_answer(hypothesis, eos_ids, done) for hypothesis in found]


def _answer(hypothesis: Hypothesis, eos_ids: Sequence[int], done: bool) -> BeamAnswer:
    reason: Literal["eos", "stop", "length", "cancelled"]
    if hypothesis.eos_id is None:
        reason = "length" if done else "cancelled"
    else:
        reason = "eos" if hypothesis.eos_id in eos_ids else "stop"
    return BeamAnswer(hypothesis.token_ids, hypothesis.score, hypothesis.sum_logprobs, reason)
