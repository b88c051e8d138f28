"""`Session`: one conversation that the server keeps, and `Turn`: one request that goes on with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from onnxgen.server.errors import ApiError
from onnxgen.server.sessions.joining import Message, joined
from onnxgen.server.sessions.json_values import copied, memory_of
from onnxgen.server.settings import ServerSettings


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """What sessions may take.

    Attributes:
        max_sessions: Conversations of all tenants together.
        max_bytes: Memory of all their messages; one conversation alone may have half of it.
        idle_s: Seconds after which a conversation that nobody goes on with is forgotten; None keeps it.
    """

    max_sessions: int = 256
    max_bytes: int = 64 << 20
    idle_s: float | None = 3600

    @classmethod
    def of(cls, settings: ServerSettings) -> Self:
        """What the operator says."""
        return cls(
            max_sessions=settings.max_sessions,
            max_bytes=int(settings.max_sessions_mb * (1 << 20)),
            idle_s=settings.session_idle_s,
        )


class Session:
    """One conversation that the server keeps. For one request at a time, of one event loop.

    Args:
        id: Its name.
        tenant: Whose it is.
        max_bytes: Memory that its messages may take.
        now: Seconds since 1970.
        on_change: Is told when it was used or grew.

    Attributes:
        id: As given.
        tenant: As given.
        created_at: Seconds since 1970. Templates that write the date take this one, so that a conversation does not
            begin anew at midnight.
        used_at: When a turn last began or ended, likewise.
        token_count: Tokens of prompt and answer of the last turn.
        turns: How many turns were remembered.
        size_bytes: Memory of all messages.
        in_use: A turn is under way.
    """

    def __init__(
        self,
        id: str,
        tenant: str,
        *,
        max_bytes: int,
        now: Callable[[], float],
        on_change: Callable[[Session], None] = lambda _: None,
    ) -> None:
        self.id, self.tenant = id, tenant
        self.created_at = self.used_at = now()
        self.token_count = self.turns = self.size_bytes = 0
        self.in_use = False
        self._max_bytes, self._now, self._on_change = max_bytes, now, on_change
        self._messages: list[Message] = []

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation so far: a copy."""
        return copied(self._messages)

    @property
    def message_count(self) -> int:
        """Messages of the conversation so far."""
        return len(self._messages)

    def turn(self, messages: Sequence[Message]) -> Turn:
        """Go on with the conversation, in a ``with`` statement that spans the answer.

        Args:
            messages: What a request brings; see `joined` for what it comes to.
        """
        return Turn(self, messages)

    def joined(self, sent: Sequence[Message]) -> list[Message]:
        """What the conversation comes to with the messages of a request; its own are not copied.

        Raises:
            ApiError: 413, it would take more memory than a session may.
        """
        messages = joined(self._messages, copied(list(sent)))
        size = _size_of(messages)
        if size > self._max_bytes:
            raise ApiError(
                413,
                f"session {self.id!r} would take {size} bytes with these messages, and may take {self._max_bytes}; "
                "begin another one",
                code="session_too_large",
                param="messages",
            )
        return messages

    def replace(self, messages: Sequence[Message]) -> None:
        """Make this the conversation, whatever it takes; nobody else changes these messages."""
        self._messages = list(messages)
        self.size_bytes = _size_of(messages)
        self.touch()

    def touch(self) -> None:
        """It is used now."""
        self.used_at = self._now()
        self._on_change(self)


class Turn:
    """One request that goes on with a conversation.

    ::

        with session.turn(request.messages) as turn:
            answer = ...(turn.messages)
            turn.remember(completion.message, token_count=...)

    What is not remembered leaves the conversation as it was, also when the answer fails.

    Args:
        session: The conversation.
        sent: What the request brings.

    Attributes:
        is_open: It has begun and not ended, so that nobody else has the conversation.
    """

    def __init__(self, session: Session, sent: Sequence[Message]) -> None:
        self._session, self._sent = session, sent
        self._all: list[Message] = []
        self.is_open = False

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The whole conversation with what the request brings: a copy."""
        return copied(self._all)

    def remember(self, message: Message, *, token_count: int | None = None) -> None:
        """Make what was sent and this answer part of the conversation; called when the answer ends, or was stopped.

        Args:
            message: The answer.
            token_count: Tokens of prompt and answer together.
        """
        session = self._session
        session.replace([*self._all, copied(message)])
        session.turns += 1
        if token_count is not None:
            session.token_count = token_count

    def __enter__(self) -> Self:
        session = self._session
        if session.in_use:
            raise ApiError(
                409,
                f"session {session.id!r} is answering another request; wait for its end, or use a session for each "
                "conversation",
                code="session_busy",
            )
        self._all = session.joined(self._sent)
        self.is_open = session.in_use = True
        session.touch()
        return self

    def end(self) -> None:
        """Let the next request have the conversation. The end of the ``with`` statement does it too."""
        if self.is_open:
            self.is_open = self._session.in_use = False
            self._session.touch()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


def _size_of(messages: Sequence[Message]) -> int:
    return sum(map(memory_of, messages))
