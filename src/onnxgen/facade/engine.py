"""`Engine`: many sessions on one model, driven by the caller; by onnxruntime-genai's names."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from onnxgen.engine.client.folder_grammars import FolderGrammars
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.events import EngineEvent as CoreEvent
from onnxgen.engine.of_model import engine_of
from onnxgen.engine.sampling.options import check_integer
from onnxgen.engine.stats import EngineStats
from onnxgen.facade.engine_buffer import EngineEventBuffer
from onnxgen.facade.engine_request import EngineEvent, EngineServices, Request
from onnxgen.facade.model import Model
from onnxgen.facade.search.engine_counts import speculative_report
from onnxgen.facade.text_model import default_engine_config

if TYPE_CHECKING:
    from onnxgen.preprocess.detokenizer import IncrementalDetokenizer
    from onnxgen.preprocess.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class EngineCapabilities:
    """What an engine can do at once.

    Attributes:
        configured_max_batch_size: Sequences that run at once.
        max_request_length: The longest session, prompt and answer together, in tokens.
        max_scheduled_tokens: Tokens of one step.
    """

    configured_max_batch_size: int
    max_request_length: int
    max_scheduled_tokens: int


class RequestOptions:
    """Options of a session."""

    def __init__(self) -> None:
        self.max_session_tokens: int | None = None

    def set_max_session_tokens(self, count: int) -> None:
        """The longest that the session may become, prompts and answers together, in tokens."""
        self.max_session_tokens = check_integer("max_session_tokens", count, low=1)


class Engine:
    """Many sessions on one model, driven by whoever calls `run`.

    The thread that made an engine owns it: calls from another raise `StateError`.

    Args:
        model: Answers; stays the caller's, and must stay open.
        config: Budgets, cache and policy. None: as `LLM` has it.

    Raises:
        BackendError: The cache cannot be had.
    """

    def __init__(self, model: Model, config: EngineConfig | None = None) -> None:
        self._config = config or default_engine_config(model.runtime)
        self._spec = model.spec
        spec = model.spec
        self._grammars = FolderGrammars(
            spec.tokenizer_dir, vocab_size=model.backend.vocab_size, eos_ids=spec.tokens.eos
        )
        self._core = engine_of(spec, model.backend, self._config, grammars=self._grammars)
        self._core.adopt()
        self._turns: dict[int, Request] = {}
        self._ready: deque[CoreEvent] = deque()
        self._tokenizer: Tokenizer | None = None

    def create_request(self, *, options: RequestOptions | None = None) -> Request:
        """A session without tokens.

        Raises:
            StateError: The engine is closed, or another thread owns it.
        """
        self._core.adopt()
        longest = self._core.max_seq_tokens
        asked = None if options is None else options.max_session_tokens
        return Request(
            EngineServices(
                self._core,
                self._spec,
                longest if asked is None else min(asked, longest),
                self._listen,
                self._detokenizer,
            )
        )

    def create_event_buffer(self, capacity: int) -> EngineEventBuffer:
        """Room for the events of a run."""
        return EngineEventBuffer(capacity)

    def run(self, buffer: EngineEventBuffer) -> EngineEventBuffer:
        """Fill a buffer with events that wait; only if there are none, do one step first.

        Returns:
            The buffer.
        """
        if not self._ready:
            self._ready.extend(self._core.step())
        events: list[EngineEvent] = []
        while self._ready and len(events) < buffer.capacity:
            event = self._ready.popleft()
            request = self._turns.get(event.request_id)
            if request is not None:
                events.append(request.receive(event))
        buffer.fill(events)
        return buffer

    def has_pending_requests(self) -> bool:
        """Whether `run` has something to do or to report."""
        return bool(self._ready) or self._core.has_work

    def get_capabilities(self) -> EngineCapabilities:
        """What it can do at once."""
        budgets = self._config.scheduler
        return EngineCapabilities(budgets.max_seqs, self._core.max_seq_tokens, budgets.max_step_tokens)

    def max_draft_tokens_per_proposal(self) -> int:
        """The most tokens that are guessed ahead at once; 0: none are, unless ``EngineConfig.speculation`` says so."""
        speculation = self._config.speculation
        return 0 if speculation.method == "off" else speculation.max_draft_tokens

    def get_speculative_stats(self) -> Mapping[str, int | float | bool | list[int]]:
        """What guessing ahead did for all turns, under the names that `Generator.get_speculative_stats` has.

        What only a single sequence has, such as tokens that wait to be handed out, is 0.
        """
        return speculative_report(self._core.stats().speculation)

    def stats(self) -> EngineStats:
        """What it has done so far."""
        return self._core.stats()

    def close(self) -> None:
        """End all turns, close their requests and release the cache. Calling it twice is harmless."""
        self._core.close()  # raises in a thread that does not own the engine, whose turns then go on
        for request in self._turns.values():
            request.abandon()
        self._turns.clear()
        self._grammars.close()
        self._ready.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _listen(self, core_id: int, request: Request | None) -> None:
        if request is None:
            self._turns.pop(core_id, None)
        else:
            self._turns[core_id] = request

    def _detokenizer(self) -> IncrementalDetokenizer:
        from onnxgen.preprocess.detokenizer import IncrementalDetokenizer
        from onnxgen.preprocess.tokenizer import Tokenizer

        if self._tokenizer is None:
            self._tokenizer = Tokenizer.from_folder(
                self._spec.tokenizer_dir, model_vocab_size=self._spec.vocab_size
            )
        return IncrementalDetokenizer(self._tokenizer)
