"""Chat completions: what is asked, and what is answered.

Source: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, WithJsonSchema
from typing_extensions import TypedDict

from onnxgen.server.schemas.generation import GenerationFields
from onnxgen.server.schemas.logprobs import ChoiceLogprobs
from onnxgen.server.schemas.usage import Timings, Usage

_TEXT_OR_NOTHING = {"type": ["string", "null"]}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


_PART = {
    "anyOf": [
        {"type": "string"},
        _object(
            ["type", "text"], type={"enum": ["text", "input_text", "output_text"]}, text={"type": "string"}
        ),
        _object(["type", "refusal"], type={"const": "refusal"}, refusal={"type": "string"}),
        _object(["type"], type={"enum": ["image_url", "input_audio"]}),
    ]
}
_CONTENT = {"anyOf": [{"type": "string"}, {"type": "array", "items": _PART}, {"type": "null"}]}
_CALLED = _object(["name"], name={"type": "string"}, arguments={"type": ["string", "object", "null"]})
_CALL = _object(["function"], id=_TEXT_OR_NOTHING, type={"const": "function"}, function=_CALLED)
_MESSAGE = {
    "anyOf": [
        _object(
            ["role"],
            role={"enum": ["system", "developer", "user"]},
            content=_CONTENT,
            name=_TEXT_OR_NOTHING,
        ),
        _object(
            ["role"],
            role={"const": "assistant"},
            content=_CONTENT,
            name=_TEXT_OR_NOTHING,
            refusal=_TEXT_OR_NOTHING,
            reasoning_content=_TEXT_OR_NOTHING,
            tool_calls={"type": ["array", "null"], "items": _CALL},
        ),
        _object(
            ["role", "tool_call_id"],
            role={"const": "tool"},
            content=_CONTENT,
            name=_TEXT_OR_NOTHING,
            tool_call_id={"type": "string", "minLength": 1},
        ),
    ]
}
Messages = Annotated[
    list[dict[str, Any]], WithJsonSchema({"type": "array", "minItems": 1, "items": _MESSAGE})
]
"""A conversation. Checked by `normalized_messages`, whose errors name the message."""

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class ChatRequest(GenerationFields):
    """A conversation to answer."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"messages": [{"role": "user", "content": "What is ONNX?"}], "max_completion_tokens": 100}
            ]
        }
    )

    messages: Messages
    """The conversation."""
    tools: list[dict[str, Any]] | None = None
    """Functions that the model may call."""
    tool_choice: str | dict[str, Any] | None = None
    """none, auto, required, the function to call, or allowed_tools with some of them."""
    parallel_tool_calls: bool | None = None
    """An answer may call more than one function; usually true."""

    max_completion_tokens: int | None = None
    """Likewise max_tokens, over which it wins."""
    logprobs: bool | None = None
    """Give log probabilities of the answer's tokens."""
    top_logprobs: Annotated[int, Field(ge=0)] | None = None
    """Likewise of this many of the likeliest tokens at each place."""

    reasoning_effort: ReasoningEffort | None = None
    """How much to think, for models whose chat template knows; none switches thinking off."""
    include_reasoning: bool | None = None
    """Whether the reasoning is given; usually true."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Further variables of the chat template, such as enable_thinking."""
    documents: list[dict[str, Any]] | None = None
    """Texts to answer from, for chat templates that know them."""
    continue_final_message: bool | None = None
    """The last message, an assistant's, is continued, and not answered."""
    add_generation_prompt: bool | None = None
    """The opposite of continue_final_message."""

    chat_template: Any = None
    """Refused: only the operator says which template is used."""
    functions: Any = None
    """Refused: give tools."""
    function_call: Any = None
    """Refused: give tool_choice."""
    modalities: list[str] | None = None
    """Text is all there is."""
    audio: Any = None
    """Refused: answers are text."""
    web_search_options: Any = None
    """Refused: nothing is looked up."""
    prediction: Any = None
    """Accepted and ignored: see speculation."""
    verbosity: Any = None
    """Accepted and ignored."""

    def length(self) -> tuple[str, int | None]:
        """See `GenerationFields`."""
        if self.max_completion_tokens is not None:
            return "max_completion_tokens", self.max_completion_tokens
        return "max_tokens", self.max_tokens

    def num_logprobs(self) -> tuple[str, int | None]:
        """See `GenerationFields`."""
        return "top_logprobs", (self.top_logprobs or 0) if self.logprobs else None


class CalledFunction(TypedDict):
    """A function and its arguments, which are JSON text."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    """A call that the model makes."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class AnswerMessage(TypedDict):
    """An answer."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: NotRequired[str]
    reasoning: NotRequired[str]
    tool_calls: NotRequired[list[ToolCall]]


FinishReason = Literal["stop", "length", "tool_calls"]


class Choice(TypedDict):
    """One of the answers, and why it ended; ``stop_reason`` is the stop text or token that was found."""

    index: int
    message: AnswerMessage
    logprobs: ChoiceLogprobs | None
    finish_reason: FinishReason
    stop_reason: str | int | None


class ChatCompletion(TypedDict):
    """All answers to a conversation."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[Choice]
    usage: Usage
    timings: NotRequired[Timings]
    session_id: NotRequired[str]
    session_token_count: NotRequired[int]
