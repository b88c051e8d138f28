"""`RecentRequests`: the requests that ended last, and those that have not, for traces."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from onnxgen.server.observe.ended import EndedRequest

if TYPE_CHECKING:
    from onnxgen.server.observe.observer import Observed


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
        self.open_requests: dict[int, Observed] = {}

    def began(self, observed: Observed) -> None:
        """A request began."""
        self.open_requests[id(observed)] = observed

    def ended(self, observed: Observed, request: EndedRequest) -> None:
        """A request ended."""
        self.open_requests.pop(id(observed), None)
        self.ended_requests.append(request)

    def close(self) -> None:
        """What is remembered stays."""
