"""`Metrics`: what is counted of requests, for Prometheus."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from onnxgen.server.observe.ended import EndedRequest
from onnxgen.server.observe.token_flow import TokenFlows
from onnxgen.version import __version__

_FIRST_S = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96)
_TOTAL_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
_QUEUED_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_LOAD_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class Metrics:
    """What is counted of requests, in a registry of its own.

    Every name begins with ``onnxgen_``. Labels have few values: endpoints, served models, outcomes; never keys or what
    clients made up.

    Attributes:
        registry: Where everything is; collectors of other numbers join it through `add`.
        first_token_s: By model.
        tokens: Tokens of answers, and the times between them.
        in_progress: By endpoint and model.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        build = Gauge("onnxgen_build_info", "Always 1.", ["version", "python"], registry=self.registry)
        build.labels(__version__, platform.python_version()).set(1)
        self.tokens = TokenFlows()
        self.add(self.tokens)
        by_request = ["endpoint", "model"]
        self._requests = self._counter("onnxgen_requests", "Requests that ended.", [*by_request, "outcome"])
        self.in_progress = Gauge(
            "onnxgen_requests_in_progress",
            "Requests that have not ended.",
            by_request,
            registry=self.registry,
        )
        self._answers = self._counter("onnxgen_answers", "Answers that ended.", ["model", "reason"])
        self._prompt_tokens = self._counter("onnxgen_prompt_tokens", "Tokens of prompts.", ["model"])
        self._cached_tokens = self._counter(
            "onnxgen_cached_prompt_tokens", "Tokens of prompts that needed no computing.", ["model"]
        )
        self.first_token_s = self._seconds(
            "onnxgen_time_to_first_token_seconds", "From a request to its first token.", ["model"], _FIRST_S
        )
        self._total_s = self._seconds(
            "onnxgen_request_seconds", "From a request to its end.", by_request, _TOTAL_S
        )
        self._queued_s = self._seconds(
            "onnxgen_queue_seconds", "From the engine's acceptance to the first step.", ["model"], _QUEUED_S
        )
        self._loads = self._counter("onnxgen_model_loads", "Models loaded.", ["model", "outcome"])
        self._load_s = self._seconds(
            "onnxgen_model_load_seconds", "Loading a model, without its warm-up.", ["model"], _LOAD_S
        )
        self._responses = self._counter(
            "onnxgen_http_responses", "HTTP answers, errors included.", ["route", "method", "status"]
        )

    def add(self, collector: Collector) -> None:
        """Let a collector give its numbers too."""
        self.registry.register(collector)

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Show a number that is read whenever all are asked for."""
        Gauge(name, text, registry=self.registry).set_function(read)

    def ended(self, request: EndedRequest) -> None:
        """Count a request that ended; its tokens and its first token were counted when they came."""
        self._requests.labels(request.endpoint, request.model, request.outcome).inc()
        self._total_s.labels(request.endpoint, request.model).observe(request.total_s)
        for reason in request.finish_reasons:
            self._answers.labels(request.model, reason).inc()
        if request.prompt_tokens is not None:
            self._prompt_tokens.labels(request.model).inc(request.prompt_tokens)
            self._cached_tokens.labels(request.model).inc(request.cached_tokens)
        if request.queued_s is not None:
            self._queued_s.labels(request.model).observe(request.queued_s)

    def loaded(self, model: str, *, seconds: float | None, ok: bool = True) -> None:
        """Count a model that was loaded, or was not.

        Args:
            model: The served id.
            seconds: How long it took; None: it was not measured.
            ok: Whether it can be used.
        """
        self._loads.labels(model, "ok" if ok else "error").inc()
        if ok and seconds is not None:
            self._load_s.labels(model).observe(seconds)

    def responded(self, route: str, method: str, status: int) -> None:
        """Count an HTTP answer.

        Args:
            route: The path as the application declares it, with placeholders.
            method: One of HTTP's.
            status: The status.
        """
        self._responses.labels(route, method, str(status)).inc()

    def text(self) -> bytes:
        """Everything in Prometheus's text format."""
        return generate_latest(_WithoutCreated(self.registry))  # pyright: ignore[reportArgumentType] - only collects

    def _counter(self, name: str, text: str, labels: list[str]) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _seconds(self, name: str, text: str, labels: list[str], buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)


class _WithoutCreated(Collector):
    """What a registry has, without a series that says when each counter began, which nobody asks for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric
