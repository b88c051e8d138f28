"""`SpanSender`: a span of OpenTelemetry for each request, with the attributes of its conventions for generative AI.

Where spans go is said by OpenTelemetry's own variables, such as ``OTEL_EXPORTER_OTLP_ENDPOINT``. A request that comes with
``traceparent`` (https://www.w3.org/TR/trace-context/) is a part of that trace.
Attributes: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onnxgen.errors import ConfigError
from onnxgen.server.observe.context import CURRENT
from onnxgen.server.observe.ended import EndedRequest
from onnxgen.server.observe.listener import OpenRequest
from onnxgen.version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

_OPERATIONS = {
    "chat.completions": "chat",
    "messages": "chat",
    "responses": "chat",
    "completions": "text_completion",
    "embeddings": "embeddings",
}
_MISSING = (
    "traces with OpenTelemetry were asked for, and its packages are not installed; pip install 'onnxgen[otel]', or leave "
    "the option otel out"
)


class SpanSender:
    """Sends a span for each request.

    Args:
        tracer: Makes spans.
        close: Sends what was not sent yet.
        clock: The observer's.
        now_ns: Nanoseconds since 1970.
    """

    def __init__(
        self,
        tracer: Tracer,
        *,
        close: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.perf_counter,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._tracer, self._close = tracer, close
        self._clock, self._now_ns = clock, now_ns
        self._spans: dict[int, Span] = {}

    def began(self, observed: OpenRequest) -> None:
        """Begin a span, in the trace that the request says."""
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        current = CURRENT.get()
        carrier = {} if current is None else dict(current.trace_headers)
        operation = _OPERATIONS.get(observed.endpoint, observed.endpoint)
        self._spans[id(observed)] = self._tracer.start_span(
            f"{operation} {observed.model}",
            context=TraceContextTextMapPropagator().extract(carrier, context=Context()),
            kind=SpanKind.SERVER,
            start_time=self._at_ns(observed.began_s),
            attributes={
                "gen_ai.operation.name": operation,
                "gen_ai.provider.name": "onnxgen",
                "gen_ai.request.model": observed.model,
                "onnxgen.endpoint": observed.endpoint,
                "onnxgen.request.id": observed.request_id,
                "gen_ai.request.stream": observed.stream,
            },
        )

    def ended(self, observed: OpenRequest, request: EndedRequest) -> None:
        """End its span."""
        from opentelemetry.trace import StatusCode

        span = self._spans.pop(id(observed), None)
        if span is None:
            return
        for name, value in _attributes(request).items():
            if value is not None:
                span.set_attribute(name, value)
        if request.first_s is not None:
            span.add_event("first token", timestamp=self._at_ns(request.first_s))
        if request.outcome in ("error", "timeout"):
            span.set_status(StatusCode.ERROR, request.error or request.outcome)
        span.end(end_time=self._at_ns(request.ended_s))

    def close(self) -> None:
        """Send what was not sent yet."""
        self._close()

    def _at_ns(self, at_s: float) -> int:
        """A reading of the observer's clock as nanoseconds since 1970."""
        return self._now_ns() - round(1e9 * (self._clock() - at_s))


def _attributes(request: EndedRequest) -> dict[str, Any]:
    failed = request.outcome != "ok"
    return {
        "gen_ai.response.model": request.model,
        "gen_ai.usage.input_tokens": request.prompt_tokens,
        "gen_ai.usage.output_tokens": request.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": None
        if request.prompt_tokens is None
        else request.cached_tokens,
        "gen_ai.response.finish_reasons": request.finish_reasons or None,
        "gen_ai.response.time_to_first_chunk": request.ttft_s,
        "onnxgen.queue_s": request.queued_s,
        "onnxgen.outcome": request.outcome,
        "http.response.status_code": request.status,
        "error.type": (request.error or request.outcome) if failed else None,
    }


def open_span_sender() -> SpanSender:
    """A sender to where OpenTelemetry's variables say, in the background.

    Raises:
        ConfigError: Its packages are not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as cause:
        raise ConfigError(_MISSING) from cause
    resource = Resource.create({SERVICE_VERSION: __version__})
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):  # no variable names it
        resource = resource.merge(Resource({SERVICE_NAME: "onnxgen"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return SpanSender(provider.get_tracer("onnxgen", __version__), close=provider.shutdown)
