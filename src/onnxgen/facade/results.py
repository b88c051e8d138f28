"""What `LLM` gives back: `Chunk` while it streams, `Completion` at the end."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.engine.events import FinishReason


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Tokens of the answer, without the end-of-sequence token.
        cached_tokens: Tokens of the prompt that an earlier turn or another request had computed already.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Timings:
    """How long one answer took; None where it was not measured.

    Attributes:
        load_s: Loading the model, in seconds.
        ttft_s: From the call to the first token, in seconds.
        prefill_tok_s: Prompt tokens computed per second, until the first token.
        decode_tok_s: Tokens per second after the first one; None with fewer than two tokens.
    """

    load_s: float | None
    ttft_s: float | None
    prefill_tok_s: float | None
    decode_tok_s: float | None


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer.

    Attributes:
        text: The answer, without the stop text that ended it.
        token_ids: The tokens that were generated, without the end-of-sequence token.
        finish_reason: ``eos`` (end-of-sequence token), ``stop`` (stop text or stop token), ``length``, ``deadline`` or ``cancelled``.
        usage: Token counts.
        timings: Durations.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage
    timings: Timings


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a streamed answer; the pieces' texts and tokens add up to the completion's.

    Attributes:
        text: New text, which may be empty.
        token_ids: The tokens generated since the last piece.
        index: Which prompt is answered.
        finish_reason: Set in an answer's last piece only.
        completion: The whole answer, in its last piece only.
    """

    text: str
    token_ids: tuple[int, ...]
    index: int = 0
    finish_reason: FinishReason | None = None
    completion: Completion | None = None
