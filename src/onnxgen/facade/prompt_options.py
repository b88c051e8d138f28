"""`PromptOptions`: how a conversation becomes a prompt, and how its answer is read."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from onnxgen.errors import OptionError
from onnxgen.facade.generation_options import GenerationOptions, changed_options
from onnxgen.facade.tool_choice import AUTO, ToolChoice, read_tool_choice

_RESERVED = frozenset(
    {
        "messages",
        "tools",
        "add_generation_prompt",
        "continue_final_message",
        "fold_system",
        "allow_special_tokens",
        "clock",
        "template",
    }
)
"""What `ChatTemplate.prompt` takes beside variables."""


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """How a conversation becomes a prompt, and how its answer is read.

    Attributes:
        template: Name of one of the model's templates; None chooses.
        template_variables: Further variables of the template, such as ``enable_thinking``.
        continue_final_message: The last message, an assistant's, is left open and continued.
        fold_system: A template that knows no system role gets the system message in front of the first question.
        allow_special_tokens: Control tokens written out in messages are control tokens. Otherwise they are text.
        split_reasoning: Reasoning goes into `Completion.reasoning` where the template marks it. False: it stays in
            the text, with its marks.
        tool_choice: Whether tools that are offered are called: ``auto``, ``none``, ``required`` (at least one), or one of
            them, as ``{"type": "function", "function": {"name": ...}}``. A grammar holds the model to it.
        parallel_tool_calls: An answer may call more than one tool.
        tool_call_format: How the model writes calls, by a name of `onnxgen.preprocess.tool_calls.formats.FORMATS`, for
            models whose chat template does not show it. None: as the template shows it.
        now: What the template takes for the time; None is the system's. Keep one per conversation, or a template
            that writes the date begins anew at midnight.
    """

    template: str | None = None
    template_variables: Mapping[str, Any] = field(default_factory=dict[str, Any])
    continue_final_message: bool = False
    fold_system: bool = False
    allow_special_tokens: bool = False
    split_reasoning: bool = True
    tool_choice: str | Mapping[str, Any] | ToolChoice = AUTO
    parallel_tool_calls: bool = True
    tool_call_format: str | None = None
    now: datetime.datetime | None = None

    def __post_init__(self) -> None:
        """Check types, and that no variable takes a name that the renderer needs.

        Raises:
            OptionError: Naming the option.
        """
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name} must be True or False, got {getattr(self, name)!r:.60}")
        for name in ("template", "tool_call_format"):
            value: object = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise OptionError(f"{name} must be the name of one, got {value!r:.60}")
        object.__setattr__(self, "tool_choice", read_tool_choice(self.tool_choice))
        if self.now is not None and not isinstance(self.now, datetime.datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(f"now must be a datetime, got {self.now!r:.60}")
        given = self.template_variables
        if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(f"template_variables must be a mapping of names to values, got {given!r:.60}")
        variables = {str(name): value for name, value in given.items()}
        if clash := _RESERVED & variables.keys():
            raise OptionError(f"{min(clash)!r} is not a template variable that can be set")
        object.__setattr__(self, "template_variables", variables)

    @property
    def choice(self) -> ToolChoice:
        """What ``tool_choice`` says."""
        return read_tool_choice(self.tool_choice)


_SWITCHES = (
    "continue_final_message",
    "fold_system",
    "allow_special_tokens",
    "split_reasoning",
    "parallel_tool_calls",
)

_NAMES = tuple(f.name for f in fields(PromptOptions))


def changed_chat_options(
    options: object, prompt_options: PromptOptions | None, changes: Mapping[str, Any]
) -> tuple[GenerationOptions, PromptOptions]:
    """Options of a chat as a caller gave them, with some of them changed by name.

    Raises:
        OptionError: They are something else, or an option is unknown or out of range.
    """
    about_prompt = {name: value for name, value in changes.items() if name in _NAMES}
    about_answer = {name: value for name, value in changes.items() if name not in _NAMES}
    settings = changed_options(options, about_answer, also_known=_NAMES)
    return settings, replace(given_prompt_options(prompt_options), **about_prompt)


def given_prompt_options(options: object) -> PromptOptions:
    """Prompt options as a caller gave them; None for the usual ones.

    Raises:
        OptionError: They are something else.
    """
    if options is None:
        return PromptOptions()
    if not isinstance(options, PromptOptions):
        raise OptionError(f"prompt_options must be PromptOptions, got {options!r:.60}")
    return options
