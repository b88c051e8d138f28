"""What `LLM` gives back: `Chunk` while it streams, `Completion` at the end, `Score` for a text that is only judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from onnxgen.engine.events import FinishReason
from onnxgen.preprocess.tool_calls.messages import answer_message
from onnxgen.preprocess.tool_calls.tools import ToolCall

AnswerEnd = FinishReason | Literal["tool_calls"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Tokens of the answer, without the end-of-sequence token.
        cached_tokens: Tokens of the prompt that an earlier turn or another request had computed already.
        draft_tokens: Tokens that were guessed ahead.
        accepted_draft_tokens: Those of them that are part of the answer.
        reasoning_tokens: Tokens of the answer that are reasoning, its marks included.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    draft_tokens: int = 0
    accepted_draft_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Timings:
    """How long one answer took; None where it was not measured.

    Attributes:
        load_s: Loading the model, in seconds.
        ttft_s: From the call to the first token, in seconds.
        prefill_tok_s: Prompt tokens computed per second, until the first token.
        decode_tok_s: Tokens per second after the first one; None with fewer than two tokens.
        queue_s: From the engine's acceptance to the first step, in seconds; part of ``ttft_s``.
    """

    load_s: float | None
    ttft_s: float | None
    prefill_tok_s: float | None
    decode_tok_s: float | None
    queue_s: float | None = None


@dataclass(frozen=True, slots=True)
class TopToken:
    """One of the most probable tokens at a place.

    Attributes:
        token_id: The token.
        token: Its text; bytes that are no whole character are U+FFFD.
        token_bytes: Its exact bytes.
        logprob: Natural logarithm of its probability.
    """

    token_id: int
    token: str
    token_bytes: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token and how probable it was where it stands.

    Attributes:
        token_id: The token.
        token: Its text; bytes that are no whole character are U+FFFD.
        token_bytes: Its exact bytes. Those of an answer's tokens, one after the other, are the answer's.
        logprob: Natural logarithm of its probability.
        rank: 1 for the most probable token.
        top: The most probable tokens, best first.
        text_offset: Where its text begins, in characters of the text that all tokens make.
    """

    token_id: int
    token: str
    token_bytes: bytes
    logprob: float
    rank: int
    top: tuple[TopToken, ...]
    text_offset: int


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer.

    Attributes:
        text: The answer, without the stop text that ended it, and without its reasoning.
        token_ids: The tokens that were generated, without the end-of-sequence token.
        finish_reason: ``eos`` (end-of-sequence token, or what was asked for is complete), ``tool_calls`` (likewise,
            and tools are called), ``stop`` (stop text or stop token), ``length``, ``deadline`` or ``cancelled``.
        usage: Token counts.
        timings: Durations.
        reasoning: What the model thought before it answered, where its chat template marks that; else empty.
        stop: The stop text, or the id of the stop token, that ended the answer.
        logprobs: Of each of ``token_ids``, if they were asked for.
        prompt_logprobs: Of each token of the prompt, if they were asked for; None for the first. Of several answers to
            one prompt, the first has them.
        end_logprob: Of the token that ended the answer, which is not one of ``token_ids``, if they were asked for; None
            where no token did.
        score: With beams: the answer's log probability divided by its length to the power of ``length_penalty``.
        tool_calls: The tools that the model calls, with arguments as JSON text. A call that was cut is none: it stays in
            ``text``.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: AnswerEnd
    usage: Usage
    timings: Timings
    reasoning: str = ""
    stop: str | int | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    prompt_logprobs: Sequence[TokenLogprob | None] | None = None
    end_logprob: TokenLogprob | None = None
    score: float | None = None
    tool_calls: tuple[ToolCall, ...] = ()

    @property
    def message(self) -> dict[str, Any]:
        """The answer as a message of a conversation, to append before the results of its calls or the next question."""
        return answer_message(self.text, self.reasoning, self.tool_calls)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a streamed answer; the pieces' texts and tokens add up to the completion's.

    Attributes:
        text: New text, which may be empty.
        token_ids: The tokens generated since the last piece.
        index: Which answer this belongs to: answer ``j`` to prompt ``i`` has index ``i * n + j``.
        finish_reason: Set in an answer's last piece only.
        completion: The whole answer, in its last piece only.
        reasoning: New reasoning.
        logprobs: Of ``token_ids``, if they were asked for.
        tool_calls: New calls of tools, each whole.
        prompt_logprobs: Those of `Completion.prompt_logprobs`, in the first piece of the answer that has them.
        prompt_tokens: Tokens of the prompt.
    """

    text: str
    token_ids: tuple[int, ...]
    index: int = 0
    finish_reason: AnswerEnd | None = None
    completion: Completion | None = None
    reasoning: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    prompt_logprobs: Sequence[TokenLogprob | None] | None = None
    prompt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Score:
    """How probable a text is to a model.

    Attributes:
        tokens: Its tokens, each after those before it. Without context the first one is not judged, and not here.
    """

    tokens: tuple[TokenLogprob, ...]

    @property
    def logprob(self) -> float:
        """Natural logarithm of the text's probability."""
        return math.fsum(token.logprob for token in self.tokens)

    @property
    def perplexity(self) -> float:
        """``exp`` of the mean negative log probability of a token."""
        return math.exp(-self.logprob / len(self.tokens)) if self.tokens else math.nan

    @property
    def is_greedy(self) -> bool:
        """Whether each token is the one that greedy decoding chooses."""
        return all(token.rank == 1 for token in self.tokens)
