"""What `/v1/sessions` takes and gives."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from onnxgen.server.schemas.chat import Messages


class SessionRequest(BaseModel):
    """A conversation to begin."""

    model_config = ConfigDict(use_attribute_docstrings=True, json_schema_extra={"examples": [{}]})

    messages: Messages | None = None
    """How it begins, such as with a system message."""


class SessionObject(BaseModel):
    """A conversation that the server keeps. Times are seconds since 1970."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    """What `X-Session-Id` names it by."""
    object: Literal["session"] = "session"
    created_at: int
    used_at: int
    """When a turn last began or ended."""
    expires_at: int | None
    """When it is forgotten if nobody goes on with it; null keeps it."""
    in_use: bool
    """An answer is under way."""
    turns: int
    """Questions with their answers."""
    message_count: int
    token_count: int
    """Tokens of prompt and answer of the last turn."""
    size_bytes: int
    """Memory of all messages."""


class SessionWithMessages(SessionObject):
    """A conversation and what was said."""

    messages: list[dict[str, Any]]


class SessionList(BaseModel):
    """Conversations, the one used last first."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    object: Literal["list"] = "list"
    data: list[SessionObject]
    has_more: bool
    """There are more than were asked for."""
