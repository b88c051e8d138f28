"""`RequestContext`: which request the code that runs now works for, for log lines and traces."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(slots=True)
class RequestContext:
    """Which request the code that runs now works for.

    Attributes:
        request_id: As in the header ``X-Request-Id``.
        trace_headers: What the request says about the trace that it is part of: ``traceparent`` and ``tracestate`` of
            W3C's Trace Context.
        observed: Whether an observer hears of it, and a log line of its own tells of its end.
    """

    request_id: str
    trace_headers: Mapping[str, str] = field(default_factory=dict[str, str])
    observed: bool = False


CURRENT: ContextVar[RequestContext | None] = ContextVar("onnxgen_request", default=None)
"""The request of the running task, and of threads that it started by `asyncio.to_thread`; None outside of requests."""
