"""`Sample`: one sequence of a request on its way through the engine, and the states it may be in.

::

    WAITING ──> PREFILL <──> DECODE ──> FINISHED       back from DECODE: it crossed the rotary switch
       │          │▲           │
       ▼          ▼│           ▼                       from WAITING: a fork that found no seat
       PREEMPTED , SWAPPED                             its blocks were given back, or moved out; it comes back

Every state may end in FINISHED: by its last token, a cancel, a deadline or an error.
"""

from __future__ import annotations

from enum import Enum, auto

import numpy as np
import numpy.typing as npt

from onnxgen.engine.constraints.state import GrammarState
from onnxgen.engine.events import TokenUsage
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.custom import BatchLogitsProcessor, LogitsProcessor, Mask, Sampler
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.state import RowState
from onnxgen.engine.tokens import TokenBuffer


class SampleState(Enum):
    """Where a sequence is in its life."""

    WAITING = auto()
    PREFILL = auto()
    DECODE = auto()
    PREEMPTED = auto()
    SWAPPED = auto()
    FINISHED = auto()


_S = SampleState
_NEXT = {
    _S.WAITING: {_S.PREFILL, _S.PREEMPTED, _S.FINISHED},
    _S.PREFILL: {_S.DECODE, _S.PREEMPTED, _S.SWAPPED, _S.FINISHED},
    _S.DECODE: {_S.PREFILL, _S.PREEMPTED, _S.SWAPPED, _S.FINISHED},
    _S.PREEMPTED: {_S.PREFILL, _S.FINISHED},
    _S.SWAPPED: {_S.PREFILL, _S.FINISHED},
    _S.FINISHED: set[SampleState](),
}


class Sample:
    """One sequence of a request.

    Args:
        request_id: Which request.
        index: Which of its samples.
        request: What was asked for.
        tokens: The prompt, and what is generated after it.
        prompt_tokens: Length of the prompt.
        options: How its tokens are chosen, with a seed.
        processors: Change its logits.
        sampler: Chooses its tokens in place of ours.
        grammar: What its answer must look like, at the beginning of the answer; None: like anything.

    Attributes:
        state: Where it is in its life; changes through `advance` only.
        cached_tokens: Tokens of the prompt that the cache held when it was first admitted.
        queued_s: Seconds until it was first admitted; None: it was not.
        row_state: What choosing its tokens has to remember.
        draft_tokens: Tokens that were guessed ahead and computed.
        accepted_draft_tokens: Of these, those that the model agreed with.
        mask: The tokens that may follow now, while a token is chosen; None: all may.
    """

    __slots__ = (
        "_prompt_tokens",
        "accepted_draft_tokens",
        "cached_tokens",
        "draft_tokens",
        "grammar",
        "index",
        "mask",
        "options",
        "processors",
        "queued_s",
        "request",
        "request_id",
        "row_state",
        "sampler",
        "state",
        "tokens",
    )

    def __init__(
        self,
        request_id: int,
        index: int,
        *,
        request: EngineRequest,
        tokens: TokenBuffer,
        prompt_tokens: int,
        options: SamplingOptions,
        processors: tuple[LogitsProcessor | BatchLogitsProcessor, ...],
        sampler: Sampler | None = None,
        grammar: GrammarState | None = None,
    ) -> None:
        self.request_id = request_id
        self.index = index
        self.request = request
        self.tokens = tokens
        self._prompt_tokens = prompt_tokens
        self.options = options
        self.processors = processors
        self.sampler = sampler
        self.grammar = grammar
        self.mask: Mask | None = None
        self.state = SampleState.WAITING
        self.cached_tokens = 0
        self.queued_s: float | None = None
        self.draft_tokens = self.accepted_draft_tokens = 0
        self.row_state = RowState()

    @property
    def name(self) -> str:
        """What logs call its request."""
        return str(self.request_id) if self.request.name is None else self.request.name

    @property
    def num_tokens(self) -> int:
        """Length of the sequence."""
        return len(self.tokens)

    @property
    def history(self) -> npt.NDArray[np.int64]:
        """The sequence's ids, int64 ``[num_tokens]``: a view, valid until the next token."""
        return self.tokens.view()

    @property
    def answer(self) -> npt.NDArray[np.int64]:
        """The ids behind the prompt, int64 ``[num_new_tokens]``: a view, valid until the next token."""
        return self.tokens.view()[self._prompt_tokens :]

    @property
    def num_new_tokens(self) -> int:
        """Tokens of the answer so far."""
        return len(self.tokens) - self._prompt_tokens

    @property
    def usage(self) -> TokenUsage:
        """The counts as they are now."""
        return TokenUsage(
            self._prompt_tokens,
            self.num_new_tokens,
            self.cached_tokens,
            self.draft_tokens,
            self.accepted_draft_tokens,
            self.queued_s,
        )

    def advance(self, state: SampleState) -> None:
        """Go to another state; staying is no move."""
        if state is self.state:
            return
        assert state in _NEXT[self.state], f"{self.state.name} -> {state.name} of {self}"
        self.state = state

    def __repr__(self) -> str:
        return f"sample {self.index} of request {self.name} ({self.state.name}, {len(self.tokens)} tokens)"
