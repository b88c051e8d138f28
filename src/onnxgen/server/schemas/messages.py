"""What `/v1/messages` takes and gives.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from onnxgen.server.schemas.generation import GenerationFields, Texts


class ThinkingFields(BaseModel):
    """Whether a model thinks before it answers."""

    model_config = ConfigDict(strict=True, extra="allow", use_attribute_docstrings=True)

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    """enabled, adaptive and between_tools think as the model does it; disabled does not, in models that can."""
    budget_tokens: int | None = None
    """Checked to be less than max_tokens; how long a model thinks is its own affair."""
    display: Literal["summarized", "omitted"] | None = None
    """omitted leaves the text of thoughts out; otherwise they are given as they are."""


class OutputConfig(BaseModel):
    """What the answer must be like."""

    model_config = ConfigDict(strict=True, extra="allow", use_attribute_docstrings=True)

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    """How much to think."""
    format: dict[str, Any] | None = None
    """{"type": "json_schema", "schema": {...}} holds the text to a schema."""


class MessagesPrompt(GenerationFields):
    """A conversation."""

    messages: list[Any]
    """user and assistant by turns; the last one is continued if it is the assistant's."""
    system: str | list[Any] | None = None
    """The system prompt: a text, or blocks of text."""
    tools: list[Any] | None = None
    """Tools that the model may use, each with an input_schema."""
    tool_choice: dict[str, Any] | None = None
    """auto, any, tool with a name, or none."""
    thinking: ThinkingFields | None = None
    """Whether the model thinks; left out: not, in models that can, and nothing of it is shown."""
    output_config: OutputConfig | None = None
    """What the answer must be like."""
    output_format: dict[str, Any] | None = None
    """Likewise, as output_config.format."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Further variables of the chat template."""
    stop: str | Texts | None = Field(default=None, validation_alias=AliasChoices("stop_sequences", "stop"))
    """Texts that end the answer; they are not part of it."""
    mcp_servers: list[Any] | None = None
    """Refused unless empty: this server runs no tools."""
    container: Any = None
    """Refused: this server runs no tools."""
    thread: Any = None
    """Refused: send the whole conversation each time."""


class MessagesRequest(MessagesPrompt):
    """A message to answer with."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"max_tokens": 100, "messages": [{"role": "user", "content": "What is ONNX?"}]}]
        }
    )

    max_tokens: int  # pyright: ignore[reportGeneralTypeIssues, reportIncompatibleVariableOverride] - this API asks for it
    """The answer's length at most, in tokens; less if the context or the server's limit leave less."""


class Message(BaseModel):
    """An answer."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[dict[str, Any]]
    """Blocks: thinking, text, tool_use."""
    stop_reason: (
        Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"] | None
    )
    stop_sequence: str | None
    usage: dict[str, Any]
    """Tokens; those of the prompt that were cached are counted apart."""


class TokenCount(BaseModel):
    """Tokens of a request's prompt."""

    input_tokens: int
