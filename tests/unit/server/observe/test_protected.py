"""Observability behind protection: refusals count, secrets stay out of logs, and the engine knows the request's id."""

import json
import logging

import httpx
import pytest

import server_doubles
from onnxgen.server.app import create_app
from onnxgen.server.observe.observer import Observer
from onnxgen.server.observe.request_log import RequestLog
from onnxgen.server.protection import protect

SECRET, PROMPT = "sk-of-alice-0123456789", "what nobody else may read"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    services = server_doubles.fake_services(
        tmp_path_factory.mktemp("server"),
        settings={"api_key": (f"alice={SECRET}",), "admin_key": ("sk-root",)},
    )
    services.observer = Observer(listeners=[RequestLog()], statistics_s=0)
    with server_doubles.running(protect(create_app(services), services)) as url:
        yield url


def _chat(url, *, key=SECRET, **headers):
    body = {"model": "tiny", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 3}
    headers |= {"Authorization": f"Bearer {key}"}
    return httpx.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=30)


def test_the_id_of_a_request_is_in_its_answer_its_line_and_the_engine(url, caplog):
    with caplog.at_level(logging.DEBUG, logger="onnxgen"):
        answer = _chat(url, **{"X-Request-Id": "mine-1"})
    assert answer.status_code == 200
    assert answer.headers["x-request-id"] == "mine-1"
    (line,) = (r for r in caplog.records if r.name == "onnxgen.server.requests")
    assert line.fields["request_id"] == "mine-1"
    assert line.fields["tenant"] == "alice"
    engine = [r.getMessage() for r in caplog.records if r.name.startswith("onnxgen.engine.")]
    assert any("mine-1" in text and "waits" in text for text in engine)
    assert any("mine-1" in text and "ended" in text for text in engine)


def test_neither_keys_nor_prompts_are_logged(url, caplog):
    with caplog.at_level(logging.DEBUG):
        assert _chat(url).status_code == 200
        assert _chat(url, key="sk-wrong-key").status_code == 401
    said = json.dumps([[r.getMessage(), str(getattr(r, "fields", ""))] for r in caplog.records])
    assert "chat.completions tiny: 200 ok" in said
    for secret in (SECRET, "sk-wrong-key", PROMPT):
        assert secret not in said


def test_refusals_of_the_protection_count(url):
    before = _refusals(url)
    assert _chat(url, key="sk-wrong-key").status_code == 401
    assert _refusals(url) == before + 1


def test_prefixes_are_for_operators(url):
    for key, status in ((SECRET, 403), ("sk-root", 200)):
        answer = httpx.get(
            f"{url}/v1/status", params={"prefixes": 3}, headers={"Authorization": f"Bearer {key}"}, timeout=30
        )
        assert answer.status_code == status
    answer = httpx.get(f"{url}/v1/status", headers={"Authorization": f"Bearer {SECRET}"}, timeout=30)
    assert answer.status_code == 200


def _refusals(url) -> float:
    text = httpx.get(f"{url}/metrics", timeout=30).text  # without a key
    start = 'onnxgen_http_responses_total{method="POST",route="none",status="401"} '
    return sum(float(line.removeprefix(start)) for line in text.splitlines() if line.startswith(start))
