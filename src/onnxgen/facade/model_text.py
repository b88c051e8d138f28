"""`ModelText`: the text side of a model folder, without the model: prompts into requests, tokens into answers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from onnxgen.engine.request import EngineRequest, longest
from onnxgen.errors import ChatTemplateError, OptionError
from onnxgen.facade.answer import Answer, Clock
from onnxgen.facade.config import Config
from onnxgen.facade.generation_options import GenerationOptions, sampling_for
from onnxgen.facade.stops import StopMatcher

if TYPE_CHECKING:
    from onnxgen.preprocess.chat_template import ChatTemplate

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
            messages,
            tools=list(tools) if tools else None,
            add_generation_prompt=True,
            **_variables(template_variables),
        )
        return self.tokenizer.encode(text)

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
            ContextLengthError: The prompt does not fit the context, or not with ``max_new_tokens``.
        """
        request = EngineRequest(
            prompt,
            sampling=sampling_for(options, self.spec.search, prompt_tokens=len(prompt)),
            max_new_tokens=options.max_new_tokens,
            ignore_eos=options.ignore_eos,
        )
        longest(request, context_length=self.spec.context_length)
        return request

    def start_answer(self, request: EngineRequest, options: GenerationOptions, *, index: int = 0) -> Answer:
        """An answer that is asked for now."""
        from onnxgen.preprocess.detokenizer import IncrementalDetokenizer

        return Answer(
            detokenizer=IncrementalDetokenizer(self.tokenizer),
            stops=StopMatcher(options.stop),
            index=index,
            prompt_tokens=len(request.prompt),
            load_s=self.load_s,
            clock=self.clock,
            started=self.clock(),
        )

    def _chat_template(self) -> ChatTemplate:
        from onnxgen.preprocess.chat_template import ChatTemplate

        if self._template is None:
            self._template = ChatTemplate.require(self.spec.tokenizer_dir)
        return self._template


def texts_of(prompts: object) -> list[str]:
    """Prompts as callers give them: one text or several.

    Raises:
        OptionError: They are something else.
    """
    if isinstance(prompts, str):
        return [prompts]
    if isinstance(prompts, bytes) or not isinstance(prompts, Iterable):
        raise OptionError(f"prompts must be a text or a list of texts, got {prompts!r:.60}")
    texts = list(cast("Iterable[object]", prompts))
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise OptionError(
                f"prompt {index} must be a text, got {text!r:.60}; token ids are for Generator.append_tokens"
            )
    return cast("list[str]", texts)


def _variables(given: object) -> dict[str, Any]:
    """Variables for a template, by name; what `ChatTemplate.render` takes for itself is none."""
    variables = {} if given is None else given
    if not isinstance(variables, Mapping):
        raise OptionError(f"template_variables must be a mapping of names to values, got {given!r:.60}")
    variables = {str(name): value for name, value in cast("Mapping[object, Any]", variables).items()}
    clash = {"messages", "tools", "add_generation_prompt", "clock"} & variables.keys()
    if clash:
        raise OptionError(f"{min(clash)!r} is not a template variable that can be set")
    return variables
