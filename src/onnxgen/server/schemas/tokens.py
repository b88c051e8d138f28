"""What `/tokenize`, `/detokenize`, `/apply-template` and `/tokenizer_info` take and give.

In the forms of llama.cpp's server and of vLLM's, told apart by the names of fields. Sources:
https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md,
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
"""

from __future__ import annotations

from typing import Any, NotRequired

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from onnxgen.server.schemas.chat import Messages, ReasoningEffort


class _TokenFields(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", use_attribute_docstrings=True)

    model: str | None = Field(default=None, max_length=512)
    """Whose tokenizer, by a name of `/v1/models`; left out: the only model, or the first."""


class _ConversationFields(_TokenFields):
    tools: list[dict[str, Any]] | None = None
    """Functions that the model may call."""
    reasoning_effort: ReasoningEffort | None = None
    """How much to think, for chat templates that know it."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Further variables of the chat template."""
    documents: list[dict[str, Any]] | None = None
    """Texts to answer from, for chat templates that know them."""
    continue_final_message: bool | None = None
    """The last message is left open."""
    add_generation_prompt: bool | None = None
    """The answer begins at the end; usually true, unless the last message is left open."""
    chat_template: Any = None
    """Refused: only the operator says which template is used."""


class TemplateRequest(_ConversationFields):
    """A conversation to write as the model sees it. Further fields of chat requests are taken, and do not matter."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"messages": [{"role": "user", "content": "What is ONNX?"}]}]}
    )

    messages: Messages
    """The conversation."""


class TemplateAnswer(TypedDict):
    """A conversation as the model sees it."""

    prompt: str


class TokenizeRequest(_ConversationFields):
    """One of content, prompt and messages."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"prompt": "What is ONNX?"}]})

    content: str | None = None
    """A text; the answer has the tokens alone, as llama.cpp's."""
    prompt: str | None = None
    """A text; the answer also has their number and the context, as vLLM's."""
    messages: Messages | None = None
    """A conversation; likewise."""
    add_special: bool | None = None
    """With content: special tokens that the tokenizer adds, too; usually not."""
    add_special_tokens: bool | None = None
    """With prompt: likewise; usually so. Conversations have those that the chat template writes."""
    parse_special: bool | None = None
    """Special tokens that are written out are tokens, not text; usually so. For texts."""
    with_pieces: bool | None = None
    """With content: the text of each token, or its bytes where they are no text."""
    return_token_strs: bool | None = None
    """With prompt and messages: the tokens as the vocabulary writes them."""


class TokenPiece(TypedDict):
    """A token and its text, or its bytes."""

    id: int
    piece: str | list[int]


class Tokens(TypedDict):
    """Tokens; their number and the model's context where prompt or messages were asked about."""

    tokens: list[int] | list[TokenPiece]
    count: NotRequired[int]
    max_model_len: NotRequired[int | None]
    token_strs: NotRequired[list[str] | None]


class DetokenizeRequest(_TokenFields):
    """Tokens to make a text of."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"tokens": [1, 2, 3]}]})

    tokens: list[int]
    """Token ids."""
    skip_special_tokens: bool | None = None
    """Leave special tokens out; usually they are written."""


class Text(TypedDict):
    """The same text twice: as llama.cpp's server names it, and as vLLM's does."""

    content: str
    prompt: str


class TokenizerInfo(TypedDict):
    """What programs want to know that use the server's tokenizer instead of their own."""

    model: str
    vocab_size: int
    model_max_length: int | None
    bos_token: str | None
    eos_token: str | None
    pad_token: str | None
    unk_token: str | None
    chat_template: str | None
