"""`ChatTemplate`: messages to the prompt a model was trained on."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxgen.errors import ChatTemplateError
from onnxgen.preprocess.long_texts import check_length
from onnxgen.preprocess.open_message import cut_at_mark, mark_end
from onnxgen.preprocess.shadow_text import Shade, plain
from onnxgen.preprocess.template_files import DEFAULT, PLACES, TemplateText, find_templates
from onnxgen.preprocess.template_limits import Budget, RenderLimits
from onnxgen.preprocess.template_messages import (
    odd_content,
    plain_data,
    plain_messages,
    plain_tools,
    styled_messages,
    text_size,
)
from onnxgen.preprocess.template_style import MessageStyle, probe_style
from onnxgen.preprocess.tokenizer_settings import read_tokenizer_settings

if TYPE_CHECKING:
    from onnxgen.preprocess.special_text import SpecialSpan, SpecialText
    from onnxgen.preprocess.template_program import TemplateProgram
    from onnxgen.preprocess.tokenizer import Tokenizer

_TOOL_USE = "tool_use"
_RESERVED = frozenset({"messages", "raise_exception", "strftime_now"})


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A conversation as a model reads it.

    Attributes:
        text: The rendered text.
        token_ids: Its ids.
        shadowed: The text with shadows (see `shadow_text`): what looks like a control token in it is one.
    """

    text: str
    token_ids: list[int]
    shadowed: str


class ChatTemplate:
    """The chat templates of one model.

    A template is foreign code: it runs in a sandbox, on copies of plain data, within `RenderLimits`.

    Attributes:
        limits: What one rendering may use.
    """

    def __init__(
        self,
        templates: Mapping[str, TemplateText],
        *,
        special_tokens: Mapping[str, str] | None = None,
        limits: RenderLimits | None = None,
    ) -> None:
        if not templates:
            raise ValueError("a ChatTemplate needs at least one template")
        self.limits = limits or RenderLimits()
        self._templates = dict(templates)
        self._special_tokens = dict(special_tokens or {})
        self._programs: dict[str, TemplateProgram] = {}
        self._styles: dict[str, MessageStyle] = {}
        self._lock = threading.Lock()

    @classmethod
    def find(
        cls, folder: str | Path, *, override: str | None = None, limits: RenderLimits | None = None
    ) -> ChatTemplate | None:
        """Find the templates of a model folder.

        Args:
            folder: Searched for ``chat_template.jinja`` with ``chat_templates/*.jinja``, then
                ``chat_template.json``, ``processor_config.json``, ``tokenizer_config.json``.
            override: Text of a template to use instead, or the name of one of the folder's.
            limits: What one rendering may use.

        Returns:
            None when the folder has no template and none is given.

        Raises:
            ModelFileError: One of those files is there and cannot be read.
        """
        folder = Path(folder)
        templates = find_templates(folder)
        if override is not None:
            text = templates.get(override) or TemplateText(override, "the template given")
            templates = {DEFAULT: text}
        if not templates:
            return None
        special_tokens = read_tokenizer_settings(folder).special_tokens
        return cls(templates, special_tokens=special_tokens, limits=limits)

    @classmethod
    def require(
        cls, folder: str | Path, *, override: str | None = None, limits: RenderLimits | None = None
    ) -> ChatTemplate:
        """Find the templates of a model folder as `find` does.

        Raises:
            ChatTemplateError: The folder has none.
        """
        template = cls.find(folder, override=override, limits=limits)
        if template is None:
            raise ChatTemplateError(
                f"{Path(folder).resolve().name} has no chat template (looked for {', '.join(PLACES)}); give one, "
                "or complete plain text instead of chatting if this is a base model"
            )
        return template

    @property
    def source(self) -> str:
        """Where the template used without tools was found: a file, with the key inside it for JSON."""
        return self._templates[self._choose(None, tools=())].source

    @property
    def text(self) -> str:
        """Text of the template used without tools."""
        return self._templates[self._choose(None, tools=())].text

    @property
    def tool_text(self) -> str:
        """Text of the template used with tools."""
        return self._templates[self._tool_name].text

    @property
    def tool_style(self) -> MessageStyle:
        """What the template used with tools wants of messages.

        Raises:
            ChatTemplateError: It cannot be rendered.
        """
        return self._style(self._tool_name)

    @property
    def _tool_name(self) -> str:
        return self._choose(None, tools=(None,))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the templates found, ``default`` among them where there is one."""
        return tuple(sorted(self._templates))

    def check(self) -> None:
        """Compile all templates.

        Raises:
            ChatTemplateError: One has a syntax error; the message has file and line.
        """
        for name in self._templates:
            self._program(name)

    def render(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        fold_system: bool = False,
        clock: Callable[[], datetime.datetime] | None = None,
        template: str | None = None,
        **variables: Any,
    ) -> str:
        """Make the prompt for a conversation.

        Args:
            messages: Mappings with ``role`` and ``content``, as in chat completion requests. The
                arguments of tool calls may be JSON text or mappings, their content may be None.
            tools: Tools in the same form; a template named ``tool_use`` is preferred when there are some.
            add_generation_prompt: End with the beginning of an assistant's turn.
            continue_final_message: Leave the last message open, so that the model continues it; no turn is
                begun then.
            fold_system: Where a template has no system role, put the text of system messages in front of the
                next message of the user.
            clock: Time that templates see; the system's local time if None.
            template: Name of one of several templates.
            **variables: More variables for the template (``enable_thinking``, ``documents``, ...); they
                may also replace ``bos_token`` and the like.

        Raises:
            ChatTemplateError: The template refuses the messages, is refused by the sandbox, or fails.
        """
        return self._render(
            messages,
            None,
            tools=tools,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            fold_system=fold_system,
            clock=clock,
            template=template,
            **variables,
        )

    def prompt(
        self,
        tokenizer: Tokenizer,
        messages: Iterable[Mapping[str, Any]],
        /,
        *,
        allow_special_tokens: bool = False,
        max_tokens: int | None = None,
        **options: Any,
    ) -> ChatPrompt:
        """Make the token ids of the prompt for a conversation.

        Special tokens are those that the template writes. Text that looks like one and comes from a message,
        a tool or a variable is text, however the template handles it; a template that looks for such text
        finds it. Where there is no such text, the ids are those of the text that `render` gives, unless it
        has noncharacters (U+FDD0 to U+FDEF), which become U+FFFD. Added tokens that are not special
        (``<think>`` of some models) are found everywhere.

        A template that knows no ``add_generation_prompt`` and writes a header in front of an assistant's text
        gets that header at the end.

        Args:
            tokenizer: The model's.
            messages: As for `render`.
            allow_special_tokens: Special tokens may come from messages, tools and variables, too.
            max_tokens: What fits: a prompt that is far longer is refused before it is made in whole. None: anything.
            **options: Options and variables of `render`.

        Raises:
            ChatTemplateError: As for `render`.
            ContextLengthError: It is far longer than ``max_tokens``.
        """
        special = tokenizer.special_text
        wants_header = options.get("add_generation_prompt", True) and not options.get(
            "continue_final_message"
        )
        shade = None if allow_special_tokens else Shade(special.edges)
        rendered = self._render(messages, shade, **options)
        if wants_header:
            name = self._choose(options.get("template"), tools=options.get("tools") or ())
            rendered += self._style(name).generation_header
        text = plain(rendered)
        if max_tokens is not None:
            check_length(text, max_tokens, tokenizer=tokenizer)
        own = self._own_spans(rendered, special)
        everything_is_own = allow_special_tokens or own == special.spans(text)
        ids = tokenizer.encode(text) if everything_is_own else special.encode(text, own)
        return ChatPrompt(text, ids, shadowed=rendered)

    def _render(
        self,
        messages: Iterable[Mapping[str, Any]],
        shade: Shade | None,
        /,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        fold_system: bool = False,
        clock: Callable[[], datetime.datetime] | None = None,
        template: str | None = None,
        **variables: Any,
    ) -> str:
        if clash := _RESERVED & variables.keys():
            raise ChatTemplateError(f"{min(clash)!r} is not a variable that can be set")
        name = self._choose(template, tools=tools or ())
        style = self._style(name)
        styled = styled_messages(plain_messages(messages), style, fold_system=fold_system)
        given = {
            **{key: plain_data(value) for key, value in variables.items()},
            "messages": styled,
            "tools": plain_tools(tools),
        }
        context: dict[str, Any] = {
            **self._special_tokens,
            "documents": None,
            "add_generation_prompt": add_generation_prompt and not continue_final_message,
            "continue_final_message": continue_final_message,
            **(given if shade is None else shade.data(given)),
        }
        program = self._program(name)
        final = mark_end(context["messages"]) if continue_final_message else None
        try:
            text = program.render(context, budget=self._budget(context), clock=clock)
        except ChatTemplateError as cause:
            if (odd := odd_content(styled)) is not None:
                raise ChatTemplateError(f"{odd} ({cause})") from cause
            raise
        return text if final is None else cut_at_mark(text, final, program.source)

    def _own_spans(self, rendered: str, special: SpecialText) -> list[SpecialSpan]:
        """Special tokens that the template wrote.

        One without punctuation has no shadow: it counts where the template or the folder has that word.
        """
        spans = special.spans(rendered)
        if not special.words:
            return spans
        known = "\n".join([*self._special_tokens.values(), *(t.text for t in self._templates.values())])
        words = frozenset(word for word in special.words if word not in known)
        return [span for span in spans if rendered[span.begin : span.end] not in words]

    def _budget(self, context: Mapping[str, Any]) -> Budget:
        return Budget(self.limits, input_chars=text_size(context))

    def _choose(self, name: str | None, *, tools: Sequence[Any]) -> str:
        if name is None:
            if tools and _TOOL_USE in self._templates:
                return _TOOL_USE
            if DEFAULT in self._templates:
                return DEFAULT
            if len(self._templates) == 1:
                return next(iter(self._templates))
        if name is None or name not in self._templates:
            asked = "no default template" if name is None else f"no template named {name!r}"
            raise ChatTemplateError(f"{asked}; there are {', '.join(self.names)}: choose one by name")
        return name

    def _program(self, name: str) -> TemplateProgram:
        from onnxgen.preprocess.template_program import TemplateProgram

        with self._lock:
            if name not in self._programs:
                template = self._templates[name]
                self._programs[name] = TemplateProgram(template.text, template.source, Budget(self.limits))
            return self._programs[name]

    def _style(self, name: str) -> MessageStyle:
        style = self._styles.get(name)
        if style is None:
            program = self._program(name)
            budget = Budget(self.limits)

            def render(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str:
                context = {**self._special_tokens, "messages": messages, "tools": tools}
                return program.render(context, budget=budget, clock=None)

            writes_header = "add_generation_prompt" in self._templates[name].text
            style = self._styles[name] = probe_style(render, writes_header=writes_header)
        return style
