"""Calls and definitions of tools as the mappings that conversations, templates and OpenAI's API have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxgen.preprocess.tool_calls.tools import ToolCall, ToolDefinition


def call_message(call: ToolCall) -> dict[str, Any]:
    """A call as an entry of ``tool_calls``; its arguments stay JSON text."""
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def definition_message(tool: ToolDefinition) -> dict[str, Any]:
    """A definition as an entry of ``tools``."""
    function: dict[str, Any] = {"name": tool.name, "parameters": dict(tool.parameters)}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


def answer_message(text: str, reasoning: str = "", tool_calls: Sequence[ToolCall] = ()) -> dict[str, Any]:
    """An answer as a message of a conversation."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if reasoning:
        message["reasoning_content"] = reasoning
    if tool_calls:
        message["tool_calls"] = [call_message(call) for call in tool_calls]
    return message
