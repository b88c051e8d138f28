"""`ChatForm`: what a model's chat template shows of how it thinks and calls tools, found out once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from onnxgen.errors import CapabilityError, OptionError
from onnxgen.facade.chat_facts import ChatFacts
from onnxgen.facade.prompt_options import PromptOptions
from onnxgen.facade.reading import Reading, ToolUse
from onnxgen.preprocess.answer_grammar import HarmonyRule, ReasoningRule
from onnxgen.preprocess.chat_template import ChatPrompt, ChatTemplate
from onnxgen.preprocess.harmony_markers import HarmonyMarkers, find_harmony_markers
from onnxgen.preprocess.past_reasoning import drops_reasoning, without_reasoning
from onnxgen.preprocess.reasoning_markers import ReasoningMarkers, find_reasoning_markers, prompt_state
from onnxgen.preprocess.template_messages import plain_messages
from onnxgen.preprocess.tokenizer import Tokenizer
from onnxgen.preprocess.tool_calls.bound import BoundFormat, bind
from onnxgen.preprocess.tool_calls.detection import find_tool_call_format, named_tool_call_format
from onnxgen.preprocess.tool_calls.layouts import ToolCallFormat
from onnxgen.preprocess.tool_calls.prompted import PROMPTED_FORMAT, shows_tools, with_tools
from onnxgen.preprocess.tool_calls.tools import ToolDefinition

_log = logging.getLogger(__name__)

Messages = Sequence[Mapping[str, Any]]


class ChatForm:
    """How a model converses. May be used from several threads.

    Args:
        template: Its chat template.
        tokenizer: Its tokenizer.
    """

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer) -> None:
        self._template = template
        self._tokenizer = tokenizer

    @property
    def facts(self) -> ChatFacts:
        """What the template was found to do."""
        shown = self._shown_format if self.shows_tools else None
        marks = self.markers
        reasoning = "harmony channels" if self.harmony else marks and f"{marks.opening}…{marks.closing}"
        return ChatFacts(
            template=self._template.source,
            shows_tools=self.shows_tools,
            tool_call_format=None if shown is None else shown.format.name,
            reasoning=reasoning,
        )

    @property
    def template_text(self) -> str:
        """The chat template, as it is written."""
        return self._template.text

    @cached_property
    def markers(self) -> ReasoningMarkers | None:
        """What stands around reasoning; None: the model marks none, or writes harmony messages."""
        if self.harmony is not None:
            return None
        return find_reasoning_markers(self._template.text, self._tokenizer)

    @cached_property
    def harmony(self) -> HarmonyMarkers | None:
        """The control tokens of harmony messages; None: the model writes none."""
        return find_harmony_markers(self._template.text, self._tokenizer)

    @cached_property
    def shows_tools(self) -> bool:
        """Whether the template writes definitions of tools into prompts."""
        return shows_tools(self._template)

    def tool_format(self, name: str | None) -> BoundFormat | None:
        """How calls of tools are written.

        Args:
            name: Of a format; None: as the template shows it.

        Returns:
            None if the template does not show it.

        Raises:
            OptionError: There is no format of that name.
            CapabilityError: The template has no place for tools, and the format cannot be asked for in messages.
        """
        named = None if name is None else named_tool_call_format(name)
        if not self.shows_tools and name != PROMPTED_FORMAT:
            raise CapabilityError(
                "tools were given, and this model's chat template has no place for them; "
                f"tool_call_format={PROMPTED_FORMAT!r} tells the model of them in messages"
            )
        return self._shown_format if named is None else self._bound(named)

    @cached_property
    def _shown_format(self) -> BoundFormat | None:
        found = find_tool_call_format(self._template.tool_text, self._tokenizer)
        if found is None:
            _log.warning(
                "the chat template of %s does not show how tools are called; calls stay text unless tool_call_format "
                "names a format",
                self._template.source,
            )
            return None
        _log.info("tools are called in the format %s, as %s shows", found.name, self._template.source)
        return self._bound(found)

    def _bound(self, format: ToolCallFormat) -> BoundFormat:
        return bind(format, self._tokenizer, short_ids=self._template.tool_style.short_ids)

    def prompt(
        self,
        messages: Messages,
        options: PromptOptions,
        *,
        tools: Messages,
        definitions: Sequence[ToolDefinition],
        add_generation_prompt: bool = True,
        max_tokens: int | None = None,
    ) -> ChatPrompt:
        """The prompt for a conversation.

        Args:
            messages: The conversation.
            options: How it becomes a prompt.
            tools: What is offered, as it was given.
            definitions: Likewise, as it was read.
            add_generation_prompt: The answer begins at the end; False: another message may follow.
            max_tokens: What fits; see `ChatTemplate.prompt`.

        Raises:
            ChatTemplateError: The template refuses the messages.
            ContextLengthError: It is far longer than ``max_tokens``.
        """
        messages = plain_messages(messages)
        if self.markers is not None and options.split_reasoning and not self._drops_reasoning:
            messages = without_reasoning(messages, self.markers)
        if definitions and not self.shows_tools:
            messages, tools = with_tools(messages, definitions), ()
        now = options.now
        return self._template.prompt(
            self._tokenizer,
            messages,
            **options.template_variables,
            tools=tools or None,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=options.continue_final_message,
            fold_system=options.fold_system,
            allow_special_tokens=options.allow_special_tokens,
            max_tokens=max_tokens,
            template=options.template,
            clock=None if now is None else (lambda: now),
        )

    def reasoning(self, prompt: ChatPrompt) -> ReasoningRule | HarmonyRule | None:
        """How the answer to a prompt may begin to think; None: it marks no reasoning."""
        if self.harmony is not None:
            return HarmonyRule(prompt.shadowed)
        markers = self.markers
        return None if markers is None else ReasoningRule(markers, prompt_state(markers, prompt.shadowed))

    def reading(self, prompt: ChatPrompt, options: PromptOptions, use: ToolUse | None) -> Reading:
        """How the answers to a prompt are read.

        Raises:
            OptionError: Reasoning has to stay in the text, and the model writes messages of which only some are text.
        """
        if options.split_reasoning:
            rule = self.reasoning(prompt)
            reasoning = rule if isinstance(rule, ReasoningRule) else None
            return Reading(reasoning, use, harmony=self.harmony, prompt=prompt.shadowed)
        if self.harmony is not None and use is not None:
            raise OptionError(
                "split_reasoning=False does not go together with tools on this model, whose calls are told from its "
                "reasoning by the messages that they are in; leave it out, or offer no tools"
            )
        marks = self.harmony or self.markers
        return Reading(None, use, kept_ids=frozenset() if marks is None else marks.shown_ids)

    @cached_property
    def _drops_reasoning(self) -> bool:
        """Whether the template leaves the reasoning of earlier answers out by itself."""
        return self.markers is None or drops_reasoning(self._template, self.markers)
