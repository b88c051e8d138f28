"""The fields of a response that say what was asked for."""

from __future__ import annotations

from typing import Any

from onnxgen.server.schemas.responses import ResponseRequest


def begun_response(asked: ResponseRequest, *, id: str, created_at: int, model: str) -> dict[str, Any]:
    """A response before it says anything.

    Args:
        asked: The request.
        id: Of the response.
        created_at: Seconds since 1970.
        model: Who answers.
    """
    text_format = None if asked.text is None else asked.text.format
    effort = None if asked.reasoning is None else asked.reasoning.effort
    return {
        "id": id,
        "object": "response",
        "created_at": created_at,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": asked.instructions,
        "max_output_tokens": asked.length()[1],
        "max_tool_calls": asked.max_tool_calls,
        "metadata": asked.metadata or {},
        "model": model,
        "output": [],
        "parallel_tool_calls": asked.parallel_tool_calls is not False,
        "previous_response_id": asked.previous_response_id,
        "reasoning": {"effort": effort, "summary": None},
        "store": asked.store is not False,
        "temperature": asked.temperature,
        "text": {"format": text_format or {"type": "text"}},
        "tool_choice": "auto" if asked.tool_choice is None else asked.tool_choice,
        "tools": asked.tools or [],
        "top_logprobs": asked.top_logprobs or 0,
        "top_p": asked.top_p,
        "truncation": asked.truncation or "disabled",
        "usage": None,
    }
