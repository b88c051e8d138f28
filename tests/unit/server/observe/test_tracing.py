"""Spans of OpenTelemetry: one for each request, in its client's trace, with times of the observer."""

import builtins

import pytest

from onnxgen.errors import ConfigError
from onnxgen.facade.results import Chunk, Completion, Timings, Usage
from onnxgen.server.observe.context import CURRENT, RequestContext
from onnxgen.server.observe.observer import Observer
from onnxgen.server.observe.opening import open_observer
from onnxgen.server.observe.tracing import SpanSender, open_span_sender
from onnxgen.server.settings import ServerSettings

pytest.importorskip("opentelemetry.sdk")

TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def world():
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, clock = InMemorySpanExporter(), Clock()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    sender = SpanSender(
        provider.get_tracer("test"), clock=clock, now_ns=lambda: round(clock.now * 1e9) + 10**18
    )
    return Observer(listeners=[sender], clock=clock), exporter, clock


def _begin(observer, **headers):
    token = CURRENT.set(RequestContext("req-1", headers))
    try:
        return observer.begin(
            request_id="req-1", endpoint="chat.completions", model="m", stream=True, tenant="secret-name"
        )
    finally:
        CURRENT.reset(token)


def test_a_span_has_the_request_s_times_and_numbers(world):
    observer, exporter, clock = world
    request = _begin(observer)
    clock.now += 0.5
    request.piece(Chunk("what was said", (1, 2)))
    clock.now += 1
    usage = Usage(12, 3, 8)
    completion = Completion("what was said", (1, 2, 3), "stop", usage, Timings(None, None, None, None, 0.125))
    request.piece(Chunk("", (3,), 0, "stop", completion))
    clock.now += 0.5
    request.end("ok", status=200)
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.kind.name, span.parent) == ("chat m", "SERVER", None)
    assert span.end_time - span.start_time == 2 * 10**9
    assert span.start_time == 10**18 + 100 * 10**9
    (event,) = span.events
    assert event.timestamp - span.start_time == 5 * 10**8
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "onnxgen",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "m",
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 8,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 0.5,
        "onnxgen.endpoint": "chat.completions",
        "onnxgen.request.id": "req-1",
        "onnxgen.queue_s": 0.125,
        "onnxgen.outcome": "ok",
        "http.response.status_code": 200,
    }
    assert "what was said" not in span.to_json()
    assert span.status.status_code.name == "UNSET"


def test_a_request_is_part_of_its_client_s_trace(world):
    observer, exporter, _ = world
    _begin(observer, traceparent=f"00-{TRACE_ID}-{PARENT_ID}-01").end("ok", status=200)
    (span,) = exporter.get_finished_spans()
    assert f"{span.context.trace_id:032x}" == TRACE_ID
    assert f"{span.parent.span_id:016x}" == PARENT_ID


@pytest.mark.parametrize("header", ["", "nonsense", f"00-{'0' * 32}-{PARENT_ID}-01", "ff-x-y-z"])
def test_a_broken_trace_of_a_client_is_no_trace(world, header):
    observer, exporter, _ = world
    _begin(observer, traceparent=header).end("ok", status=200)
    (span,) = exporter.get_finished_spans()
    assert span.parent is None


def test_a_failure_is_one_in_its_span_without_its_text(world):
    observer, exporter, _ = world
    _begin(observer).end("error", status=500, error=RuntimeError("the prompt was"))
    _begin(observer).end("cancelled", status=499)
    failed, left = exporter.get_finished_spans()
    assert (failed.status.status_code.name, failed.status.description) == ("ERROR", "RuntimeError")
    assert failed.attributes["error.type"] == "RuntimeError"
    assert "the prompt was" not in failed.to_json()
    assert (left.status.status_code.name, left.attributes["error.type"]) == ("UNSET", "cancelled")


def test_without_the_packages_the_option_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"onnxgen\[otel\]"):
        open_observer(ServerSettings(otel=True))
    assert open_observer(ServerSettings()).listeners


@pytest.mark.parametrize("name", [None, "my-service"])
def test_spans_go_to_where_the_variables_say(monkeypatch, name):
    if name is not None:
        monkeypatch.setenv("OTEL_SERVICE_NAME", name)
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    import http.server
    import threading

    received = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Collector) as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        try:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
            sender = open_span_sender()
            observer = Observer(listeners=[sender])
            _begin(observer).end("ok", status=200)
            sender.close()
            sender.close()
        finally:
            collector.shutdown()
            thread.join()
    ((path, body),) = received
    assert path == "/v1/traces"
    assert b"chat m" in body
    assert b"service.name\x12" in body
    assert (name or "onnxgen").encode() in body.split(b"service.name", 1)[1][:40]
