"""`SessionStore`: the conversations that a server keeps, each for its tenant, within limits."""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence

from onnxgen.server.errors import ApiError
from onnxgen.server.sessions.joining import Message
from onnxgen.server.sessions.session import Session, SessionLimits

MAX_ID_BYTES = 128
"""Length of a session's id."""

_ID = re.compile(rf"[!-~]{{1,{MAX_ID_BYTES}}}")  # visible ASCII: what a header and a log line can hold


class SessionStore:
    """The conversations that a server keeps, in order of use. For one event loop.

    A tenant has conversations of its own: the same id names another one for another tenant. When there are too many,
    or they are too large, the tenant who takes most of what is short loses the one that it used longest ago.

    Args:
        limits: What they may take.
        now: Seconds since 1970.
        new_id: Makes ids that nobody guesses.
    """

    def __init__(
        self,
        limits: SessionLimits | None = None,
        *,
        now: Callable[[], float] = time.time,
        new_id: Callable[[], str] = lambda: f"sess-{secrets.token_urlsafe(24)}",
    ) -> None:
        self.limits = limits or SessionLimits()
        self._now, self._new_id = now, new_id
        self._sessions: dict[tuple[str, str], Session] = {}  # the one used longest ago first

    def __len__(self) -> int:
        self._forget_idle()
        return len(self._sessions)

    @property
    def size_bytes(self) -> int:
        """Memory of the messages of all conversations."""
        return sum(session.size_bytes for session in self._sessions.values())

    def create(self, tenant: str, messages: Sequence[Message] = ()) -> Session:
        """A new conversation.

        Args:
            tenant: Whose it is.
            messages: How it begins.

        Raises:
            ApiError: 413, that is too large; 429, all there may be are in use.
        """
        return self._add(self._new_id(), tenant, messages)

    def open(self, session_id: str, tenant: str) -> Session:
        """The conversation of that id; a new one where there is none.

        Raises:
            ApiError: 400, that cannot be an id; 429, all there may be are in use.
        """
        if not _ID.fullmatch(session_id):
            raise ApiError(
                400,
                f"a session's id has 1 to {MAX_ID_BYTES} visible ASCII characters, got {session_id[:150]!r}",
                code="invalid_session_id",
                param="X-Session-Id",
            )
        self._forget_idle()
        return self._sessions.get((tenant, session_id)) or self._add(session_id, tenant)

    def find(self, session_id: str, tenant: str) -> Session:
        """The conversation of that id.

        Raises:
            ApiError: 404, there is none.
        """
        self._forget_idle()
        session = self._sessions.get((tenant, session_id))
        if session is None:
            raise ApiError(
                404,
                f"there is no session {session_id[:MAX_ID_BYTES]!r}; it may have been idle for too long",
                code="session_not_found",
            )
        return session

    def delete(self, session_id: str, tenant: str) -> None:
        """Forget a conversation; a turn of it that is under way goes on and is not remembered.

        Raises:
            ApiError: 404, there is none.
        """
        session = self.find(session_id, tenant)
        del self._sessions[session.tenant, session.id]

    def sessions(self, tenant: str | None = None) -> list[Session]:
        """Conversations, the one used last first; None: those of all tenants."""
        self._forget_idle()
        newest_first = reversed(self._sessions.values())
        return [session for session in newest_first if tenant is None or session.tenant == tenant]

    def expires_at(self, session: Session) -> float | None:
        """When a conversation is forgotten if nobody goes on with it, in seconds since 1970."""
        return None if self.limits.idle_s is None else session.used_at + self.limits.idle_s

    def _add(self, session_id: str, tenant: str, messages: Sequence[Message] = ()) -> Session:
        session = Session(
            session_id,
            tenant,
            max_bytes=self.limits.max_bytes // 2,
            now=self._now,
            on_change=self._on_change,
        )
        session.replace(session.joined(messages))
        self._forget_idle()
        self._sessions[tenant, session_id] = session
        self._shrink(keep=session)
        if len(self._sessions) > self.limits.max_sessions:
            del self._sessions[tenant, session_id]
            raise ApiError(
                429,
                f"all {self.limits.max_sessions} sessions that this server keeps are answering; ask again",
                type="rate_limit_error",
                code="sessions_full",
                headers={"Retry-After": "1"},
            )
        return session

    def _on_change(self, session: Session) -> None:
        key = session.tenant, session.id
        if self._sessions.get(key) is session:
            self._sessions[key] = self._sessions.pop(key)
            self._shrink(keep=session)

    def _forget_idle(self) -> None:
        idle_s, now = self.limits.idle_s, self._now()
        if idle_s is None:
            return
        for key, session in list(self._sessions.items()):
            if not session.in_use and session.used_at + idle_s < now:
                del self._sessions[key]

    def _shrink(self, *, keep: Session) -> None:
        """Forget conversations until the rest is within the limits, or is in use."""
        while len(self._sessions) > self.limits.max_sessions and self._forget_one(keep, lambda _: 1):
            pass
        while self.size_bytes > self.limits.max_bytes and self._forget_one(keep, lambda s: s.size_bytes):
            pass

    def _forget_one(self, keep: Session, weight: Callable[[Session], int]) -> bool:
        """Forget the conversation that the tenant with the most weight used longest ago; False if none can be."""
        weights: Counter[str] = Counter()
        for session in self._sessions.values():
            weights[session.tenant] += weight(session)
        idle = [s for s in self._sessions.values() if not s.in_use and s is not keep]
        if not idle:
            return False
        heaviest = max(weights[session.tenant] for session in idle)
        victim = next(session for session in idle if weights[session.tenant] == heaviest)
        del self._sessions[victim.tenant, victim.id]
        return True
