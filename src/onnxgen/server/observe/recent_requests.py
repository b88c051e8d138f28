"""`RecentRequests`: the requests that ended last, and those that have not, for traces."""

from __future__ import annotations

from collections import deque

from onnxgen.server.observe.ended import EndedRequest
from onnxgen.server.observe.listener import OpenRequest


class RecentRequests:
    """Remembers requests. For one event loop.

    Args:
        most: How many that have ended.

    Attributes:
        ended_requests: Those that ended last, in order.
        open_requests: Those that have not ended, in order of their beginning.
    """

    def __init__(self, most: int = 2048) -> None:
        self.ended_requests = deque[EndedRequest](maxlen=most)
        self.open_requests: dict[int, OpenRequest] = {}

    def began(self, observed: OpenRequest) -> None:
        """A request began."""
        self.open_requests[id(observed)] = observed

    def ended(self, observed: OpenRequest, request: EndedRequest) -> None:
        """A request ended."""
        self.open_requests.pop(id(observed), None)
        self.ended_requests.append(request)

    def close(self) -> None:
        """What is remembered stays."""
