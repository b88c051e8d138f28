"""`prompt_options`: how a request's conversation becomes a prompt, as `PromptOptions`."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onnxgen.errors import OptionError
from onnxgen.facade.prompt_options import PromptOptions
from onnxgen.server.errors import ApiError
from onnxgen.server.settings import ServerSettings

if TYPE_CHECKING:
    from onnxgen.server.models.table import LoadedModel


def prompt_options(
    *,
    model: LoadedModel,
    settings: ServerSettings,
    reasoning_effort: str | None = None,
    template_variables: Mapping[str, Any] | None = None,
    tool_choice: str | Mapping[str, Any] | None = None,
    parallel_tool_calls: bool | None = None,
    continue_final_message: bool = False,
    split_reasoning: bool = True,
    now: datetime.datetime | None = None,
) -> PromptOptions:
    """How a request's conversation becomes a prompt.

    Args:
        model: Who answers.
        settings: What the operator says.
        reasoning_effort: How much to think; None: as the operator says. ``none`` switches thinking off, and anything
            else on, in templates that can.
        template_variables: Further variables of the chat template, which win over all others.
        tool_choice: In OpenAI's form; None: the model decides.
        parallel_tool_calls: An answer may call more than one tool; None: it may.
        continue_final_message: The last message is left open and continued.
        split_reasoning: Reasoning is told from the answer.
        now: What templates take for the time.

    Raises:
        ApiError: 400, naming the field.
    """
    effort = reasoning_effort or settings.default_reasoning_effort
    try:
        return PromptOptions(
            template_variables={**_effort_variables(effort), **(template_variables or {})},
            continue_final_message=continue_final_message,
            fold_system=True,
            allow_special_tokens=settings.allow_special_tokens,
            split_reasoning=split_reasoning,
            tool_choice="auto" if tool_choice is None else tool_choice,
            parallel_tool_calls=parallel_tool_calls is not False,
            tool_call_format=model.entry.tool_call_format,
            now=now,
        )
    except OptionError as error:
        param = "tool_choice" if str(error).startswith("tool_choice") else "chat_template_kwargs"
        raise ApiError(400, str(error), param=param) from error


def _effort_variables(effort: str | None) -> dict[str, Any]:
    """What templates of several families call it."""
    if effort is None:
        return {}
    thinks = effort != "none"
    switches = {"enable_thinking": thinks, "thinking": thinks}
    return {**switches, "reasoning_effort": effort} if thinks else switches
