"""`ObservedApp`: what it counts, and what code below it knows."""

import asyncio
import logging

import httpx
import pytest
from fastapi import FastAPI

from onnxgen.server.observe.context import CURRENT
from onnxgen.server.observe.metrics import Metrics
from onnxgen.server.observe.middleware import ObservedApp
from onnxgen.server.observe.observer import Observer


def _asked(path, *, metrics, headers=None, request_id="r-1", method="GET"):
    """The answer of a small application, and what its route knew."""
    inner, known = FastAPI(), []

    @inner.get("/things/{name}")
    async def thing(name: str) -> str:
        known.append(CURRENT.get())
        known.append(await asyncio.to_thread(CURRENT.get))
        if name == "broken":
            raise RuntimeError("no")
        return name

    observed = ObservedApp(inner, metrics=metrics)

    async def app(scope, receive, send):
        scope.setdefault("state", {})["request_id"] = request_id
        await observed(scope, receive, send)

    async def ask():
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(ask()), known


@pytest.mark.parametrize(
    ("path", "route", "status"),
    [
        ("/things/a", "/things/{name}", 200),
        ("/things/broken", "/things/{name}", 500),
        ("/made-up-by-a-client", "none", 404),
    ],
)
def test_answers_count_by_the_path_that_is_declared(path, route, status):
    metrics = Metrics()
    answer, _ = _asked(path, metrics=metrics)
    assert answer.status_code == status
    labels = {"route": route, "method": "GET", "status": str(status)}
    assert metrics.registry.get_sample_value("onnxgen_http_responses_total", labels) == 1
    assert path not in metrics.text().decode() or path == route


def test_methods_that_clients_make_up_are_one():
    metrics = Metrics()
    answer, _ = _asked("/things/a", metrics=metrics, method="BREW")
    labels = {"route": "/things/{name}", "method": "other", "status": str(answer.status_code)}
    assert metrics.registry.get_sample_value("onnxgen_http_responses_total", labels) == 1


def test_code_and_its_threads_know_the_request_and_its_trace():
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    _, known = _asked("/things/a", metrics=Metrics(), headers={"traceparent": parent})
    assert [found.request_id for found in known] == ["r-1", "r-1"]
    assert dict(known[0].trace_headers) == {"traceparent": parent}
    assert CURRENT.get() is None


def test_a_trace_of_any_length_is_not_kept():
    _, known = _asked("/things/a", metrics=Metrics(), headers={"tracestate": "a=" + "b" * 5000})
    assert not known[0].trace_headers


@pytest.mark.parametrize(
    ("path", "level"), [("/things/a", "DEBUG"), ("/nothing-here", "INFO"), ("/things/broken", "DEBUG")]
)
def test_what_is_refused_before_anybody_observes_it_has_a_line(path, level, caplog):
    with caplog.at_level(logging.DEBUG, logger="onnxgen.server.http"):
        _asked(path, metrics=Metrics())
    (record,) = caplog.records
    assert record.levelname == level
    assert "nothing-here" not in record.getMessage()  # clients do not write our log


def test_a_request_that_is_observed_has_no_second_line(caplog):
    metrics = Metrics()
    observer = Observer(metrics=metrics)

    async def refuses(scope, receive, send):
        request = observer.begin(request_id="r", endpoint="e", model="m", stream=False, tenant="")
        request.end("rejected", status=429)
        await send({"type": "http.response.start", "status": 429, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def ask():
        scope = {"type": "http", "method": "POST", "path": "/x", "headers": [], "state": {"request_id": "r"}}
        await ObservedApp(refuses, metrics=metrics)(scope, _nothing, _nowhere)

    with caplog.at_level(logging.INFO, logger="onnxgen.server.http"):
        asyncio.run(ask())
    assert not caplog.records


async def _nothing():
    raise AssertionError("nothing is received")


async def _nowhere(message):
    pass
