"""`ModelText`: the text side of a model folder, without the model: prompts into questions, tokens into answers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.request import EngineRequest, check_ids, longest
from onnxgen.errors import ChatTemplateError, ContextLengthError, OptionError
from onnxgen.facade.answer import Answer, Clock
from onnxgen.facade.config import Config
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.prompt_options import PromptOptions
from onnxgen.facade.prompts import Prompt
from onnxgen.facade.question import Question
from onnxgen.facade.sampling_of import sampling_for
from onnxgen.facade.stops import StopMatcher
from onnxgen.preprocess.long_texts import check_length

if TYPE_CHECKING:
    from onnxgen.engine.constraints.compiler import GrammarCompiler
    from onnxgen.facade.chat_facts import ChatFacts
    from onnxgen.facade.chat_form import ChatForm
    from onnxgen.preprocess.chat_template import ChatPrompt

Messages = Sequence[Mapping[str, Any]]


class ModelText:
    """A model folder's tokenizer, chat template and defaults. May be used from several threads.

    Args:
        folder: A model folder.
        template: Text of a chat template to use instead of the folder's own.
        clock: Seconds from any beginning.

    Attributes:
        config: The folder.
        spec: What it means.
        tokenizer: Text to token ids and back.
        unused_ids: Rows of the model's logits that are no token.
        clock: As given.
        load_s: What answers say loading the model took, in seconds.

    Raises:
        ModelFileError: A file of the folder is missing or wrong.
    """

    def __init__(
        self, folder: Path, *, template: str | None = None, clock: Clock = time.perf_counter
    ) -> None:
        from onnxgen.preprocess.tokenizer import Tokenizer

        self.config = Config(folder)
        self.spec = self.config.spec
        self.tokenizer = Tokenizer.from_folder(self.spec.tokenizer_dir, model_vocab_size=self.spec.vocab_size)
        self.unused_ids = self.tokenizer.unused_ids(self.spec.vocab_size)
        self._template = template
        self.clock = clock
        self.load_s = 0.0

    def encode_text(self, text: str) -> list[int]:
        """Token ids of a text as it is, with the special tokens that the tokenizer adds; never empty.

        Raises:
            OptionError: There is nothing to begin with.
        """
        ids = self.tokenizer.encode(text, add_special_tokens=True)
        if not ids and self.spec.tokens.bos is not None:
            return [self.spec.tokens.bos]
        if not ids:
            raise OptionError(f"prompt {text!r} has no tokens, and this model has none to begin with")
        return ids

    def encode_prompt(self, prompt: Prompt) -> Sequence[int]:
        """Token ids of a prompt: those of `encode_text`, or the ones that it is.

        Raises:
            OptionError: There is nothing to begin with.
            TokenIdError: An id is outside the vocabulary.
        """
        if isinstance(prompt, str):
            return self.encode_text(prompt)
        if not prompt:
            raise OptionError("a prompt of no token ids was given, and there is nothing to begin with")
        check_ids(prompt, self.spec.vocab_size, what="prompt")
        return prompt

    def text_question(self, prompt: Prompt, options: GenerationOptions) -> Question:
        """A text to continue as it is, or token ids.

        Raises:
            OptionError: There is nothing to begin with, or an option does not fit the model.
            TokenIdError: An id is outside the vocabulary.
            ContextLengthError: It does not fit the context, or not with ``max_new_tokens``.
        """
        if isinstance(prompt, str):
            check_length(prompt, self._room(options), tokenizer=self.tokenizer)
        return Question(self.request(self.encode_prompt(prompt), options, grammar=options.grammar), options)

    def chat_prompt(
        self,
        messages: Messages,
        prompt_options: PromptOptions,
        *,
        tools: Messages | None = None,
        add_generation_prompt: bool = True,
        max_tokens: int | None = None,
    ) -> ChatPrompt:
        """What a conversation looks like to the model, up to where its answer begins, or another message may follow.

        Raises:
            ChatTemplateError: The model has no chat template, or it refuses the messages.
            OptionError: A definition of a tool is wrong.
            CapabilityError: The chat template has no place for tools.
            ContextLengthError: It is far longer than ``max_tokens``.
        """
        from onnxgen.preprocess.tool_calls.tools import read_tools

        form, definitions = self._chat_form, read_tools(tools or ())
        if definitions:
            form.tool_format(prompt_options.tool_call_format)  # refuses tools that cannot be shown
        return form.prompt(
            messages,
            prompt_options,
            tools=tools or (),
            definitions=definitions,
            add_generation_prompt=add_generation_prompt,
            max_tokens=max_tokens,
        )

    def chat_question(
        self,
        messages: Messages,
        options: GenerationOptions,
        prompt_options: PromptOptions,
        *,
        tools: Messages | None = None,
    ) -> Question:
        """A conversation to answer.

        Raises:
            ChatTemplateError: The model has no chat template, or it refuses the messages.
            OptionError: An option does not fit the model, or a definition of a tool is wrong.
            CapabilityError: Nothing shows how the model calls tools.
            ContextLengthError: It does not fit the context, or not with ``max_new_tokens``.
        """
        from onnxgen.facade.answer_rules import answer_rules
        from onnxgen.preprocess.tool_calls.tools import read_tools

        form, choice = self._chat_form, prompt_options.choice
        definitions = read_tools(tools or ())
        choice.check(definitions)
        bound = form.tool_format(prompt_options.tool_call_format) if definitions else None
        prompt = form.prompt(
            messages,
            prompt_options,
            tools=tools or (),
            definitions=definitions,
            max_tokens=self._room(options),
        )
        rules = answer_rules(
            self.tokenizer,
            options,
            prompt_options,
            reasoning=form.reasoning(prompt),
            tools=definitions,
            bound=bound,
        )
        return Question(
            self.request(prompt.token_ids, rules.options, grammar=rules.grammar),
            rules.options,
            form.reading(prompt, prompt_options, rules.tool_use),
        )

    def infill_question(
        self,
        prefix: str,
        suffix: str,
        options: GenerationOptions,
        *,
        file: str | None = None,
        repository: str | None = None,
        context: Mapping[str, str] | None = None,
    ) -> Question:
        """A gap to fill.

        Raises:
            CapabilityError: The model was not made for it, or not for names of files.
            OptionError: An option does not fit the model.
            ContextLengthError: It does not fit the context, or not with ``max_new_tokens``.
        """
        from onnxgen.preprocess.fim import fim_prompt

        for given in (prefix, suffix):
            check_length(given, self._room(options), tokenizer=self.tokenizer)
        prompt = fim_prompt(self.tokenizer, prefix, suffix, file=file, repository=repository, context=context)
        stop_ids = (*options.stop_token_ids, *prompt.stop_ids)
        options = options.with_changes({"stop_token_ids": stop_ids})
        return Question(self.request(prompt.token_ids, options, grammar=options.grammar), options)

    @property
    def chat_template(self) -> str | None:
        """The chat template, as it is written; None: there is none."""
        return self._chat_form.template_text if self.has_chat_template else None

    @property
    def has_chat_template(self) -> bool:
        """Whether conversations can be put into a prompt."""
        try:
            _ = self._chat_form
        except ChatTemplateError:
            return False
        return True

    @cached_property
    def chat_facts(self) -> ChatFacts | None:
        """What the chat template was found to do; None: there is none that can be used."""
        return self._chat_form.facts if self.has_chat_template else None

    def request(
        self, prompt: Sequence[int], options: GenerationOptions, *, grammar: Grammar | None = None
    ) -> EngineRequest:
        """A prompt, and how it is answered.

        Args:
            prompt: Token ids.
            options: How to answer.
            grammar: What the answer must look like.

        Raises:
            OptionError: An option does not fit the model.
            ContextLengthError: The prompt does not fit the context, or not with ``max_new_tokens``, or is longer than
                ``max_prompt_tokens``.
        """
        most = options.max_prompt_tokens
        if most is not None and len(prompt) > most:
            raise ContextLengthError(
                f"a prompt of {len(prompt)} tokens was given, and {most} are allowed; shorten it"
            )
        sampling = sampling_for(
            options, self.spec.search, prompt_tokens=len(prompt), tokenizer=self.tokenizer
        )
        request = EngineRequest(
            prompt,
            sampling=sampling,
            max_new_tokens=options.max_new_tokens,
            grammar=grammar,
            **options.asked_of_engine(),
        )
        longest(request, context_length=self.spec.context_length)
        return request

    def _room(self, options: GenerationOptions) -> int:
        """Tokens that a prompt may have at most."""
        return min(options.max_prompt_tokens or self.spec.context_length, self.spec.context_length)

    def start_answers(self, question: Question, *, first: int = 0) -> list[Answer]:
        """The answers to a question that is asked now, of which the first has index ``first``."""
        from onnxgen.preprocess.detokenizer import IncrementalDetokenizer

        started, reading = self.clock(), question.reading
        shown_ids = frozenset[int]() if reading is None else reading.shown_ids
        return [
            Answer(
                question,
                tokenizer=self.tokenizer,
                detokenizer=IncrementalDetokenizer(self.tokenizer, shown_ids=shown_ids),
                stops=StopMatcher(question.options.stop),
                index=first + i,
                load_s=self.load_s,
                clock=self.clock,
                started=started,
            )
            for i in range(question.request.n)
        ]

    def check_grammars(self, questions: Iterable[Question]) -> None:
        """Compile what answers must look like, so that an engine finds it done; may take a while.

        Raises:
            GrammarError: It cannot be held to.
        """
        for grammar in {question.request.grammar for question in questions} - {None}:
            assert grammar is not None
            self.grammars.compile(grammar)

    @cached_property
    def grammars(self) -> GrammarCompiler:
        """Compiles what answers must look like."""
        from onnxgen.engine.constraints.compiler import GrammarCompiler

        return GrammarCompiler(self.tokenizer, vocab_size=self.spec.vocab_size, eos_ids=self.spec.tokens.eos)

    @cached_property
    def _chat_form(self) -> ChatForm:
        from onnxgen.facade.chat_form import ChatForm
        from onnxgen.preprocess.chat_template import ChatTemplate

        return ChatForm(
            ChatTemplate.require(self.spec.tokenizer_dir, override=self._template), self.tokenizer
        )
