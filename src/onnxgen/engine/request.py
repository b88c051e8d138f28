"""`EngineRequest`: what an engine is asked for; `prompt_ids` and `longest`: whether a model can do it at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.sampling.checks import check_integer, check_number
from onnxgen.engine.sampling.custom import (
    BatchLogitsProcessor,
    LogitsProcessor,
    Sampler,
    check_processors,
    check_sampler,
)
from onnxgen.engine.sampling.logprobs import MAX_TOP_LOGPROBS
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.speculation.options import Speculation
from onnxgen.errors import CapabilityError, ContextLengthError, OptionError, TokenIdError

MAX_SAMPLES = 128
"""The most samples of one request."""
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """A prompt, and how it is answered.

    Attributes:
        prompt: Token ids, at least one.
        sampling: How tokens are chosen. Sample ``i`` of a request draws from stream ``sampling.stream + i``.
        max_new_tokens: The longest answer; None: what the context and the cache leave. 0 only scores the prompt, and
            goes with ``prompt_logprobs``.
        n: How many answers. Their prompt is computed once, and its blocks are shared.
        ignore_eos: End-of-sequence tokens are tokens like others.
        stop_token_ids: Further tokens that end an answer.
        priority: Under the policy ``priority``: smaller goes first.
        tenant: Who asks, for the policy ``fair``.
        deadline_s: Seconds from `EngineCore.submit` after which the request ends, whatever it has; None: never.
        salt: Requests share cached prefixes only with requests of the same salt.
        allow_cap: ``max_new_tokens`` may be lowered to what the context and the cache can hold.
        processors: Change a sample's logits before a token is chosen; see `LogitsProcessor`.
        logprobs: Tell how probable each chosen token was, the one that ends the answer too, and the so many best ones
            in its place, up to `MAX_TOP_LOGPROBS`. 0: of the chosen token alone. None: tell nothing.
        logprobs_of: Which distribution counts: ``raw`` is the model's, the softmax of its logits as they are;
            ``processed`` is what the token was drawn from, after penalties, bans, temperature and truncation. Where
            nothing is drawn (greedy), and where a `Sampler` chooses, that is the softmax after penalties and bans.
        prompt_logprobs: Likewise tell of the prompt's own tokens, each after those before it; always ``raw``. What
            others have computed of the prompt is reused only up to where the telling begins.
        prompt_logprobs_start: Position in the prompt from which on that is told.
        adapter: Name of the adapter that the model is used with; None: none.
        sampler: Chooses tokens in place of what ``sampling`` says of drawing; see `Sampler`.
        prompt_embeds: float32 ``[prompt, width]``, what the model reads in place of the embeddings of the prompt's
            tokens, in the scale of `GivesEmbeddings`. The ids are then what penalties and scores see. None: nothing.
        speculation: Whether tokens are guessed ahead, which changes how fast an answer comes, and with ``draft_model``
            and ``heads`` which of the equally probable answers a seed gives. None: what `EngineConfig` says.
        grammar: What the answer must look like, and where it ends: as soon as nothing but the end may follow, and no
            sooner than that may, whatever ``ignore_eos`` and ``min_length`` say. Not together with ``forced_tokens``.
            None: like anything.
        name: What logs and traces call it; None: its number.
    """

    prompt: Sequence[int]
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    max_new_tokens: int | None = None
    n: int = 1
    ignore_eos: bool = False
    stop_token_ids: Sequence[int] = ()
    priority: int = 0
    tenant: str = ""
    deadline_s: float | None = None
    salt: str | None = None
    allow_cap: bool = False
    processors: Sequence[LogitsProcessor | BatchLogitsProcessor] = ()
    logprobs: int | None = None
    logprobs_of: Literal["raw", "processed"] = "raw"
    prompt_logprobs: int | None = None
    prompt_logprobs_start: int = 0
    adapter: str | None = None
    sampler: Sampler | None = None
    prompt_embeds: npt.NDArray[np.float32] | None = None
    speculation: Speculation | None = None
    grammar: Grammar | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        """Check every value that can be checked without a model.

        Raises:
            OptionError: Naming the option, the value and the range.
        """
        check_integer("n", self.n, low=1, high=MAX_SAMPLES)
        check_integer("priority", self.priority, low=-(2**31), high=2**31)
        if self.max_new_tokens is not None:
            check_integer(
                "max_new_tokens", self.max_new_tokens, low=0 if self.prompt_logprobs is not None else 1
            )
        if self.deadline_s is not None:
            check_number("deadline_s", self.deadline_s, low=0, high=float("inf"))
        for name in ("ignore_eos", "allow_cap"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name} must be True or False, got {getattr(self, name)!r}")
        for name in ("tenant", "salt", "adapter", "name"):
            value: object = getattr(self, name)
            if not isinstance(value, str) and (name == "tenant" or value is not None):
                raise OptionError(f"{name} must be a text, got {value!r:.60}")
        if len(self.prompt) == 0:
            raise OptionError("the prompt is empty; there is nothing to continue")
        check_processors("processors", self.processors)
        check_sampler(self.sampler)
        self._check_logprobs()
        if self.speculation is not None and not isinstance(self.speculation, Speculation):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may have no checker
            raise OptionError(f"speculation must be a Speculation, got {self.speculation!r:.60}")
        if self.prompt_embeds is not None:
            _check_embeds(self.prompt_embeds, len(self.prompt))
        if self.grammar is not None:
            _check_grammar(self.grammar, self.sampling)

    def _check_logprobs(self) -> None:
        for name in ("logprobs", "prompt_logprobs"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), low=0, high=MAX_TOP_LOGPROBS)
        if self.logprobs_of not in ("raw", "processed"):
            raise OptionError(f"logprobs_of must be 'raw' or 'processed', got {self.logprobs_of!r:.60}")
        check_integer("prompt_logprobs_start", self.prompt_logprobs_start, low=0, high=len(self.prompt) - 1)
        if self.prompt_logprobs_start and self.prompt_logprobs is None:
            raise OptionError(
                f"prompt_logprobs_start={self.prompt_logprobs_start} says where prompt_logprobs begin, and there are "
                "none; give prompt_logprobs, 0 for the prompt's tokens alone"
            )


def _check_grammar(grammar: object, sampling: SamplingOptions) -> None:
    if not isinstance(grammar, Grammar):
        raise OptionError(f"grammar must be a Grammar, such as Grammar.json_object(), got {grammar!r:.60}")
    if sampling.forced_tokens:
        raise OptionError(
            "a grammar and forced_tokens were given, and each says which tokens must follow; leave one of them out"
        )


def check_embedding_size(request: EngineRequest, size: int | None) -> None:
    """Refuse embeddings that a model does not take.

    Raises:
        CapabilityError: It takes none.
        OptionError: It takes some of another width.
    """
    if request.prompt_embeds is None:
        return
    width = request.prompt_embeds.shape[1]
    if size is None:
        raise CapabilityError("prompt_embeds were given, and this model does not look tokens up in one table")
    if width != size:
        raise OptionError(f"prompt_embeds are {width} wide; this model's embeddings are {size} wide")


def _check_embeds(embeds: npt.NDArray[np.float32], num_tokens: int) -> None:
    if not isinstance(embeds, np.ndarray) or embeds.dtype != np.float32:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OptionError(f"prompt_embeds must be a float32 array, got {embeds!r:.60}")
    if embeds.ndim != 2 or len(embeds) != num_tokens:
        raise OptionError(
            f"prompt_embeds must be [{num_tokens}, width] for that many prompt ids, got {embeds.shape}"
        )
    if not np.isfinite(embeds).all():
        raise OptionError("prompt_embeds hold infinities or NaN")


def prompt_ids(request: EngineRequest, *, vocab_size: int) -> npt.NDArray[np.int64]:
    """The prompt as an array of its own, int64 ``[tokens]``, of a request that a vocabulary has everything for.

    Raises:
        TokenIdError: An id, of the prompt or of those that end answers, is no integer, or outside the vocabulary.
        OptionError: More alternatives are to be told of each position than there are tokens.
    """
    prompt = check_ids(request.prompt, vocab_size, what="prompt")
    if len(request.stop_token_ids):
        check_ids(request.stop_token_ids, vocab_size, what="stop_token_ids")
    for name in ("logprobs", "prompt_logprobs"):
        count: int | None = getattr(request, name)
        if count is not None and count > vocab_size:
            raise OptionError(
                f"{name} must be between 0 and {vocab_size}, the size of the vocabulary, got {count}"
            )
    return prompt.astype(np.int64)


def longest(request: EngineRequest, *, context_length: int) -> int:
    """How long the sequences of a request may become at most, in tokens.

    Raises:
        ContextLengthError: Not even one new token fits, or not ``max_new_tokens`` and the request allows no cap.
    """
    length, new = len(request.prompt), request.max_new_tokens
    room = context_length - (new != 0)
    if length > room or (new is not None and length + new > context_length and not request.allow_cap):
        asked = f"{length} prompt tokens" + (f" and max_new_tokens={new}" if new is not None else "")
        advice = "lower max_new_tokens" if length <= room else "shorten the prompt"
        raise ContextLengthError(
            f"{asked} do not fit the context of {context_length} tokens, which prompt and answer share; {advice}"
        )
    return context_length if new is None else min(length + new, context_length)


def check_ids(given: Sequence[int], vocab_size: int, *, what: str) -> npt.NDArray[np.integer[Any]]:
    """Token ids as an array, integers ``[tokens]``.

    Args:
        given: Token ids.
        vocab_size: How many there are.
        what: What they are called where they are wrong.

    Raises:
        TokenIdError: One of them is no integer, or outside the vocabulary.
    """
    if len(given) == 0:
        return np.empty(0, np.int64)
    try:
        # Between pieces other threads go on: a million integers take a tenth of a second.
        pieces = [np.asarray(given[i : i + _PIECE]) for i in range(0, len(given), _PIECE)]
        ids: npt.NDArray[Any] = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    except ValueError as cause:  # a list of lists
        raise TokenIdError(f"{what} must be a list of token ids, got {given!r:.60}") from cause
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise TokenIdError(f"{what} must be a list of token ids, got {given!r:.60}")
    bad = (ids < 0) | (ids >= vocab_size)
    if bad.any():
        at = int(np.argmax(bad))
        raise TokenIdError(f"token id {ids[at]} at {at} of {what} is outside [0, {vocab_size})")
    return ids
