"""`Answer`: one answer while it grows, from tokens to pieces of text, counts and durations.

::

    token ──> detokenizer ──> text ──> reader ──> reasoning, calls of tools
                                          └─────> visible text ──> stop texts ──> shown
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from onnxgen.engine.events import EngineEvent, FinishReason, TokenUsage
from onnxgen.facade.question import Question
from onnxgen.facade.results import AnswerEnd, Chunk, Completion, Timings, TokenLogprob, Usage
from onnxgen.facade.stops import StopMatcher
from onnxgen.facade.token_logprobs import PromptLogprobs, described
from onnxgen.preprocess.answer_pieces import AnswerPieces
from onnxgen.preprocess.detokenizer import IncrementalDetokenizer
from onnxgen.preprocess.tokenizer import Tokenizer
from onnxgen.preprocess.tool_calls.messages import answer_message
from onnxgen.preprocess.tool_calls.tools import ToolCall

Clock = Callable[[], float]


class Answer:
    """One answer while it grows.

    Args:
        question: What is answered.
        tokenizer: The model's.
        detokenizer: A fresh one.
        stops: A fresh matcher of the question's stop texts.
        index: Which answer it is.
        load_s: See `Timings`.
        clock: Seconds from any beginning.
        started: Reading of the clock when the answer was asked for.
    """

    def __init__(
        self,
        question: Question,
        *,
        tokenizer: Tokenizer,
        detokenizer: IncrementalDetokenizer,
        stops: StopMatcher,
        index: int,
        load_s: float | None,
        clock: Clock,
        started: float,
    ) -> None:
        self._question = question
        self._tokenizer = tokenizer
        self._detokenizer = detokenizer
        self._reader = None if question.reading is None else question.reading.new_reader()
        self._stops = stops
        self._index = index
        self._load_s = load_s
        self._clock = clock
        self._started = started
        self._used = Usage(len(question.request.prompt), 0, 0)
        self._queue_s: float | None = None
        self._first: float | None = None
        self._last: float | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []
        self._token_ids: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        self._prompt_logprobs: PromptLogprobs | None = None
        self._end_logprob: TokenLogprob | None = None
        self._stop: str | int | None = None
        self._reasoning_tokens = 0
        self._num_sent = 0
        self._sent_reasoning = 0
        self._sent_calls = 0
        self._has_unsent_prompt = False

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """The reasoning so far."""
        return "".join(self._reasoning)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools that were called so far."""
        return tuple(self._calls)

    @property
    def message(self) -> dict[str, Any]:
        """The answer so far as a message of a conversation."""
        return answer_message(self.text, self.reasoning, self.tool_calls)

    def push(self, event: EngineEvent) -> Chunk | None:
        """Take what the engine says of it; returns a piece of the answer if there is text to show or it has ended.

        Raises:
            OnnxgenError: What the answer ended with.
        """
        if event.error is not None:
            raise event.error
        if event.usage is not None:
            self._queue_s = event.usage.queued_s
            self._used = counted(self._used, event.usage)
        if event.prompt_logprobs is not None:
            self._prompt_logprobs = PromptLogprobs(
                event.prompt_logprobs, self._question.request.prompt, self._tokenizer
            )
            self._has_unsent_prompt = True
        shown = self._push_token(event)
        if self._stops.stopped:
            return self._chunk(shown, "stop")
        if event.finish_reason is not None:
            return self.finish(event.finish_reason, shown=shown)
        return self._chunk(shown, None) if shown or self._has_unsent else None

    def _push_token(self, event: EngineEvent) -> str:
        """Take a token; returns the text that may be shown now."""
        if event.token_id is None:
            return ""
        now = self._clock()
        self._first = now if self._first is None else self._first
        if event.is_eos:
            if event.finish_reason == "stop":
                self._stop = event.token_id
            self._end_logprob = self._described(event)
            return ""
        self._last = now
        self._token_ids.append(event.token_id)
        if (logprob := self._described(event)) is not None:
            self._logprobs.append(logprob)
        text = self._detokenizer.push(event.token_id)
        if self._reader is not None:
            thought_before = self._reader.in_reasoning
            text = self._keep(self._reader.push(text, event.token_id))
            self._reasoning_tokens += thought_before or self._reader.in_reasoning
        shown = self._stops.push(text)
        if shown:
            self._text.append(shown)
        return shown

    def _described(self, event: EngineEvent) -> TokenLogprob | None:
        if event.logprobs is None:
            return None
        return described(event.logprobs, self._tokenizer, text_offset=self._detokenizer.offset)

    def finish(self, reason: FinishReason, *, shown: str = "") -> Chunk:
        """End the answer: what is held back is shown, unless it completes a stop text."""
        rest = self._detokenizer.flush()
        if self._reader is not None:
            ended = reason == "eos" or (reason == "stop" and self._stop is not None)
            rest = self._keep(self._reader.push(rest)) + self._keep(self._reader.flush(complete=ended))
        rest = self._stops.push(rest)
        if self._stops.stopped:
            reason = "stop"
        rest += self._stops.flush()
        if rest:
            self._text.append(rest)
        return self._chunk(shown + rest, "tool_calls" if reason == "eos" and self._calls else reason)

    def _keep(self, pieces: AnswerPieces) -> str:
        """Keep what is not text; returns the text."""
        if pieces.reasoning:
            self._reasoning.append(pieces.reasoning)
        self._calls += pieces.calls
        return pieces.content

    @property
    def _has_unsent(self) -> bool:
        return (
            len(self._reasoning) > self._sent_reasoning
            or len(self._calls) > self._sent_calls
            or self._has_unsent_prompt
        )

    def _chunk(self, text: str, reason: AnswerEnd | None) -> Chunk:
        first, self._num_sent = self._num_sent, len(self._token_ids)
        reasoning, self._sent_reasoning = self._reasoning[self._sent_reasoning :], len(self._reasoning)
        calls, self._sent_calls = self._calls[self._sent_calls :], len(self._calls)
        told, self._has_unsent_prompt = self._has_unsent_prompt, False
        return Chunk(
            text,
            tuple(self._token_ids[first:]),
            self._index,
            reason,
            None if reason is None else self._completion(reason),
            reasoning="".join(reasoning),
            logprobs=tuple(self._logprobs[first:]),
            tool_calls=tuple(calls),
            prompt_logprobs=self._prompt_logprobs if told else None,
            prompt_tokens=self._used.prompt_tokens,
        )

    def _completion(self, reason: AnswerEnd) -> Completion:
        count, question = len(self._token_ids), self._question
        if self._stops.matched is not None:
            self._stop = question.options.stop[self._stops.matched]
        return Completion(
            self.text,
            tuple(self._token_ids),
            reason,
            replace(self._used, completion_tokens=count, reasoning_tokens=self._reasoning_tokens),
            self._timings(count),
            reasoning=self.reasoning,
            stop=self._stop,
            logprobs=None if question.options.logprobs is None else tuple(self._logprobs),
            prompt_logprobs=self._prompt_logprobs,
            end_logprob=self._end_logprob,
            tool_calls=self.tool_calls,
        )

    def _timings(self, count: int) -> Timings:
        ttft = prefill = decode = None
        if self._first is not None:
            ttft = self._first - self._started
            prefill = _rate(self._used.prompt_tokens - self._used.cached_tokens, ttft)
            if self._last is not None:
                decode = _rate(count - 1, self._last - self._first)
        return Timings(self._load_s, ttft, prefill, decode, self._queue_s)


def counted(used: Usage, told: TokenUsage) -> Usage:
    """A usage with what only the engine counts."""
    return replace(
        used,
        cached_tokens=told.cached_tokens,
        draft_tokens=told.draft_tokens,
        accepted_draft_tokens=told.accepted_draft_tokens,
    )


def _rate(count: int, seconds: float) -> float | None:
    return count / seconds if count > 0 and seconds > 0 else None
