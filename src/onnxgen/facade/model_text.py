"""`ModelText`: the text side of a model folder, without the model: prompts into questions, tokens into answers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from onnxgen.engine.request import EngineRequest, longest
from onnxgen.errors import ChatTemplateError, OptionError
from onnxgen.facade.answer import Answer, Clock
from onnxgen.facade.config import Config
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.prompt_options import PromptOptions
from onnxgen.facade.question import Question, Reasoning
from onnxgen.facade.sampling_of import sampling_for
from onnxgen.facade.stops import StopMatcher

if TYPE_CHECKING:
    from onnxgen.preprocess.chat_template import ChatTemplate
    from onnxgen.preprocess.reasoning_markers import ReasoningMarkers

Messages = Sequence[Mapping[str, Any]]


class ModelText:
    """A model folder's tokenizer, chat template and defaults. May be used from several threads.

    Args:
        folder: A model folder.
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

    def __init__(self, folder: Path, *, clock: Clock = time.perf_counter) -> None:
        from onnxgen.preprocess.tokenizer import Tokenizer

        self.config = Config(folder)
        self.spec = self.config.spec
        self.tokenizer = Tokenizer.from_folder(self.spec.tokenizer_dir, model_vocab_size=self.spec.vocab_size)
        self.unused_ids = self.tokenizer.unused_ids(self.spec.vocab_size)
        self.clock = clock
        self.load_s = 0.0
        self._template: ChatTemplate | None = None

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

    def text_question(self, text: str, options: GenerationOptions) -> Question:
        """A text to continue as it is.

        Raises:
            OptionError: There is nothing to begin with, or an option does not fit the model.
            ContextLengthError: It does not fit the context, or not with ``max_new_tokens``.
        """
        return Question(self.request(self.encode_text(text), options), options)

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
            OptionError: An option does not fit the model.
            ContextLengthError: It does not fit the context, or not with ``max_new_tokens``.
        """
        from onnxgen.preprocess.past_reasoning import without_reasoning
        from onnxgen.preprocess.reasoning_markers import prompt_state

        markers = self._reasoning_markers if prompt_options.split_reasoning else None
        if markers is not None and not self._drops_reasoning:
            messages = without_reasoning(messages, markers)
        prompt = self._chat_template().prompt(
            self.tokenizer,
            messages,
            tools=tools or None,
            **_template_arguments(prompt_options),
        )
        reasoning = None if markers is None else Reasoning(markers, prompt_state(markers, prompt.shadowed))
        return Question(self.request(prompt.token_ids, options), options, reasoning)

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

        prompt = fim_prompt(self.tokenizer, prefix, suffix, file=file, repository=repository, context=context)
        stop_ids = (*options.stop_token_ids, *prompt.stop_ids)
        options = options.with_changes({"stop_token_ids": stop_ids})
        return Question(self.request(prompt.token_ids, options), options)

    @property
    def has_chat_template(self) -> bool:
        """Whether conversations can be put into a prompt."""
        try:
            self._chat_template()
        except ChatTemplateError:
            return False
        return True

    def request(self, prompt: Sequence[int], options: GenerationOptions) -> EngineRequest:
        """A prompt, and how it is answered.

        Raises:
            OptionError: An option does not fit the model.
            ContextLengthError: The prompt does not fit the context, or not with ``max_new_tokens``.
        """
        sampling = sampling_for(
            options, self.spec.search, prompt_tokens=len(prompt), tokenizer=self.tokenizer
        )
        request = EngineRequest(
            prompt,
            sampling=sampling,
            max_new_tokens=options.max_new_tokens,
            **options.asked_of_engine(),
        )
        longest(request, context_length=self.spec.context_length)
        return request

    def start_answers(self, question: Question, *, first: int = 0) -> list[Answer]:
        """The answers to a question that is asked now, of which the first has index ``first``."""
        from onnxgen.preprocess.detokenizer import IncrementalDetokenizer

        started, reasoning = self.clock(), question.reasoning
        shown_ids = frozenset[int]() if reasoning is None else reasoning.markers.shown_ids
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

    @cached_property
    def _reasoning_markers(self) -> ReasoningMarkers | None:
        from onnxgen.preprocess.reasoning_markers import find_reasoning_markers

        return find_reasoning_markers(self._chat_template().text, self.tokenizer)

    @cached_property
    def _drops_reasoning(self) -> bool:
        """Whether the template leaves the reasoning of earlier answers out by itself."""
        from onnxgen.preprocess.past_reasoning import drops_reasoning

        markers = self._reasoning_markers
        return markers is None or drops_reasoning(self._chat_template(), markers)

    def _chat_template(self) -> ChatTemplate:
        from onnxgen.preprocess.chat_template import ChatTemplate

        if self._template is None:
            self._template = ChatTemplate.require(self.spec.tokenizer_dir)
        return self._template


def texts_of(prompts: object, *, name: str = "prompts") -> list[str]:
    """Texts as callers give them: one or several.

    Args:
        prompts: The texts.
        name: What the caller calls them.

    Raises:
        OptionError: They are something else.
    """
    if isinstance(prompts, str):
        return [prompts]
    if isinstance(prompts, bytes) or not isinstance(prompts, Iterable):
        raise OptionError(f"{name} must be a text or a list of texts, got {prompts!r:.60}")
    texts = list(cast("Iterable[object]", prompts))
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise OptionError(
                f"{name} must hold texts, got {text!r:.60} at {index}; token ids are for Generator.append_tokens"
            )
    return cast("list[str]", texts)


def _template_arguments(options: PromptOptions) -> dict[str, Any]:
    now = options.now
    return {
        **options.template_variables,
        "continue_final_message": options.continue_final_message,
        "fold_system": options.fold_system,
        "allow_special_tokens": options.allow_special_tokens,
        "template": options.template,
        "clock": None if now is None else (lambda: now),
    }
