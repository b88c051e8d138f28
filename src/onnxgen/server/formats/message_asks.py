"""What requests of Anthropic's API say of thinking and of the form of the answer, in our own words."""

from __future__ import annotations

from typing import Any

from onnxgen.server.errors import ApiError
from onnxgen.server.formats.fields import mapping_at
from onnxgen.server.formats.messages_answer import Thinking
from onnxgen.server.schemas.messages import MessagesPrompt

_EFFORT = {"xhigh": "high", "max": "high"}
"""Efforts that chat templates do not know."""
_USUAL_EFFORT = "medium"


def reasoning_effort(asked: MessagesPrompt) -> str | None:
    """How much to think; None: as the operator says, or the model does it.

    Raises:
        ApiError: The budget of thoughts is not less than the answer's.
    """
    thinking = asked.thinking
    if thinking is None or thinking.type == "disabled":
        return "none"
    budget = thinking.budget_tokens
    if budget is not None and asked.max_tokens is not None and not 0 < budget < asked.max_tokens:
        raise ApiError(
            400,
            f"thinking.budget_tokens is {budget}; it must be above 0 and less than max_tokens, {asked.max_tokens}",
            param="thinking.budget_tokens",
        )
    effort = None if asked.output_config is None else asked.output_config.effort
    if effort is not None:
        return _EFFORT.get(effort, effort)
    return _USUAL_EFFORT if thinking.type == "enabled" else None


def thinking_shown(asked: MessagesPrompt) -> Thinking:
    """What is shown of thoughts."""
    if asked.thinking is None or asked.thinking.type == "disabled":
        return "none"
    return "omitted" if asked.thinking.display == "omitted" else "shown"


def output_format(asked: MessagesPrompt) -> dict[str, Any] | None:
    """What the text must look like, as ``response_format`` of chat completions; None: like anything.

    Raises:
        ApiError: It is no format of the API, or said twice.
    """
    said = {
        "output_config.format": None if asked.output_config is None else asked.output_config.format,
        "output_format": asked.output_format,
        "response_format": asked.response_format,
    }
    names = [name for name, value in said.items() if value is not None]
    if len(names) > 1:
        raise ApiError(
            400, f"{' and '.join(names)} each say what the answer must look like; give one", param=names[0]
        )
    if not names or names[0] == "response_format":
        return None
    name = names[0]
    form = mapping_at(name, said[name])
    if form.get("type") != "json_schema":
        raise ApiError(
            400, f"{name}.type is {form.get('type')!r:.60}, expected 'json_schema'", param=f"{name}.type"
        )
    schema = mapping_at(f"{name}.schema", form.get("schema"))
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def refuse_what_is_not_here(asked: MessagesPrompt) -> None:
    """Refuse what a server would have to run or to keep.

    Raises:
        ApiError: Naming the field.
    """
    if asked.thread is not None:
        # By this code Anthropic's client knows to send the whole conversation instead.
        raise ApiError(
            400,
            "thread: this server keeps no messages; send the whole conversation each time, what was computed of it is reused",
            param="thread",
            code="thread_unsupported_request",
        )
    refused = {
        "container": (asked.container is not None, "this server runs no code"),
        "mcp_servers": (bool(asked.mcp_servers), "this server calls no tools; offer them in tools"),
        "n": (asked.n not in (None, 1), "this API gives one message to a request"),
    }
    for name, (is_given, reason) in refused.items():
        if is_given:
            raise ApiError(400, f"{name}: {reason}", param=name)
