"""An answer as chat completions say it, whole: the message, why it ended, how probable its tokens were."""

from __future__ import annotations

from collections.abc import Sequence

from onnxgen.facade.results import AnswerEnd, Completion, TokenLogprob
from onnxgen.preprocess.tool_calls.tools import ToolCall
from onnxgen.server.schemas import logprobs as shapes
from onnxgen.server.schemas.chat import AnswerMessage, Choice, FinishReason
from onnxgen.server.schemas.chat import ToolCall as CallShape

_FINISH: dict[AnswerEnd, FinishReason] = {"eos": "stop", "stop": "stop", "tool_calls": "tool_calls"}


def finish_reason(end: AnswerEnd) -> FinishReason:
    """Why an answer ended, in OpenAI's words: what was cut, for whatever reason, is ``length``."""
    return _FINISH.get(end, "length")


def chat_choice(completion: Completion, index: int, *, show_reasoning: bool) -> Choice:
    """One of the answers.

    Args:
        completion: The answer.
        index: Which one it is.
        show_reasoning: Whether the reasoning is given.
    """
    message: AnswerMessage = {
        "role": "assistant",
        "content": completion.text or (None if completion.tool_calls else ""),
        "refusal": None,
    }
    if completion.reasoning and show_reasoning:
        message["reasoning_content"] = message["reasoning"] = completion.reasoning
    if completion.tool_calls:
        message["tool_calls"] = [call_shape(call) for call in completion.tool_calls]
    return {
        "index": index,
        "message": message,
        "logprobs": None if completion.logprobs is None else logprobs_shape(completion.logprobs),
        "finish_reason": finish_reason(completion.finish_reason),
        "stop_reason": completion.stop,
    }


def call_shape(call: ToolCall) -> CallShape:
    """A call of a tool."""
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def logprobs_shape(tokens: Sequence[TokenLogprob]) -> shapes.ChoiceLogprobs:
    """How probable tokens were."""
    return {"content": [_token(token) for token in tokens], "refusal": None}


def _token(token: TokenLogprob) -> shapes.TokenLogprob:
    return {**shapes.shown_token(token), "top_logprobs": [shapes.shown_token(top) for top in token.top]}
