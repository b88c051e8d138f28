"""`RequestListener`: hears of requests; `OpenRequest`: what it may know of one that has not ended."""

from __future__ import annotations

from typing import Protocol

from onnxgen.server.observe.ended import EndedRequest


class OpenRequest(Protocol):
    """A request that has not ended, or has just now."""

    @property
    def request_id(self) -> str:
        """As in the header ``X-Request-Id`` of its answer."""
        ...

    @property
    def endpoint(self) -> str:
        """Such as ``chat.completions``."""
        ...

    @property
    def model(self) -> str:
        """The served id."""
        ...

    @property
    def stream(self) -> bool:
        """Whether its answer comes in pieces."""
        ...

    @property
    def began_s(self) -> float:
        """When it began, on the observer's clock."""
        ...

    @property
    def first_s(self) -> float | None:
        """When the first token came; None: none came yet."""
        ...

    @property
    def completion_tokens(self) -> int:
        """Tokens that came so far."""
        ...


class RequestListener(Protocol):
    """Hears of requests: log lines, traces."""

    def began(self, observed: OpenRequest) -> None:
        """A request began."""
        ...

    def ended(self, observed: OpenRequest, request: EndedRequest) -> None:
        """A request ended."""
        ...

    def close(self) -> None:
        """Nothing more will be heard; may take a moment. Called twice it must be harmless."""
        ...
