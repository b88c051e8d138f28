"""What `/v1/embeddings` takes and gives."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class EmbeddingRequest(BaseModel):
    """Texts that become vectors."""

    model_config = ConfigDict(
        strict=True,
        extra="allow",
        use_attribute_docstrings=True,
        json_schema_extra={"examples": [{"input": ["The food was good.", "It was not."]}]},
    )

    model: str | None = Field(default=None, max_length=512)
    """Whose vectors, by a name of `/v1/models`; left out: the only model, or the first."""
    input: str | list[str] | list[int] | list[list[int]]
    """A text or several; or token ids, which are taken as they are, with the special tokens that they have."""
    encoding_format: Literal["float", "base64"] = "float"
    """Numbers, or base64 of 32-bit floats, little-endian."""
    dimensions: int | None = Field(default=None, ge=1)
    """Keep so many components and normalize again, for models that were trained for it (Matryoshka)."""
    truncate: bool | None = None
    """Cut texts that are too long instead of refusing them."""
    user: Any = None
    """Accepted and ignored: tenants are told apart by their keys."""


class EmbeddingUsage(BaseModel):
    """Tokens of all texts."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingObject(BaseModel):
    """A vector."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    object: Literal["embedding"] = "embedding"
    index: int
    """Which text."""
    embedding: list[float] | str
    """Numbers, or base64 of them."""


class EmbeddingList(BaseModel):
    """Vectors, in the order of the texts."""

    object: Literal["list"] = "list"
    data: list[EmbeddingObject]
    model: str
    usage: EmbeddingUsage
