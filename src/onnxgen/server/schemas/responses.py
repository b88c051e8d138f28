"""What `/v1/responses` takes and gives.

Source: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from onnxgen.server.schemas.generation import GenerationFields

Metadata = Annotated[dict[str, str], Field(max_length=16)]


class ReasoningFields(BaseModel):
    """How a model thinks."""

    model_config = ConfigDict(strict=True, extra="allow", use_attribute_docstrings=True)

    effort: str | None = None
    """How much; none switches thinking off, in models that can."""
    summary: str | None = None
    """Accepted and ignored: reasoning is given as it is, not as a summary."""


class TextFields(BaseModel):
    """What the text must be like."""

    model_config = ConfigDict(strict=True, extra="allow", use_attribute_docstrings=True)

    format: dict[str, Any] | None = None
    """text, json_object, or json_schema with a schema."""
    verbosity: str | None = None
    """Accepted and ignored: models here know no such switch."""


class ResponseRequest(GenerationFields):
    """A response to make."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"input": "What is ONNX?", "max_output_tokens": 100}]}
    )

    input: str | list[Any] | None = None
    """A text, or items: message, function_call, function_call_output, reasoning, item_reference."""
    instructions: str | None = None
    """A system message in front, for this response only."""
    previous_response_id: str | None = Field(default=None, max_length=512)
    """A response that is kept here, to go on from."""
    store: bool | None = None
    """Keep the response for previous_response_id; left out: true."""
    max_output_tokens: int | None = None
    """The answer's length at most, in tokens, reasoning included."""
    reasoning: ReasoningFields | None = None
    """How the model thinks."""
    text: TextFields | None = None
    """What the text must be like."""
    tools: list[Any] | None = None
    """Functions that the model may call."""
    tool_choice: Any = None
    """none, auto, required, a function by its name, or some allowed ones."""
    parallel_tool_calls: bool | None = None
    """The response may call more than one function."""
    top_logprobs: int | None = None
    """Give log probabilities of so many tokens at each place."""
    include: list[str] | None = None
    """message.output_text.logprobs gives log probabilities. Nothing else has anything to include here."""
    truncation: Literal["auto", "disabled"] | None = None
    """auto drops the oldest items of a conversation that does not fit the context; otherwise it is refused."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Further variables of the chat template."""
    metadata: Metadata | None = None
    """Given back with the response."""
    max_tool_calls: int | None = None
    """Accepted and given back: it is about tools that a server runs, and this one runs none."""
    background: bool | None = None
    """Only false: responses are made while the client waits."""
    conversation: Any = None
    """Refused: conversations go on by previous_response_id."""
    prompt: Any = None
    """Refused: no prompt templates are kept here."""

    def length(self) -> tuple[str, int | None]:
        """See `GenerationFields.length`."""
        if self.max_output_tokens is None and self.max_tokens is not None:
            return "max_tokens", self.max_tokens
        return "max_output_tokens", self.max_output_tokens

    def num_logprobs(self) -> tuple[str, int | None]:
        """See `GenerationFields.num_logprobs`."""
        included = "message.output_text.logprobs" in (self.include or ())
        return "top_logprobs", (self.top_logprobs or 0) if included else (self.top_logprobs or None)


class ResponseObject(BaseModel):
    """A response. Further fields say what was asked for."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    id: str
    object: Literal["response"]
    created_at: int
    """Seconds since 1970."""
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    model: str
    output: list[dict[str, Any]]
    """Items: reasoning, message, function_call."""
    usage: dict[str, Any] | None
    error: dict[str, Any] | None
    incomplete_details: dict[str, Any] | None


class ResponseItemList(BaseModel):
    """Items that a response answered."""

    object: Literal["list"] = "list"
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class ResponseDeleted(BaseModel):
    """A response was forgotten."""

    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True


class InputTokens(BaseModel):
    """Tokens of a request's prompt."""

    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int
