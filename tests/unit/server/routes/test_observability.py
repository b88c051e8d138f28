"""`/metrics`, `/v1/status`, `/v1/resources` and `/v1/debug` of a running server: true numbers, and no secrets."""

import contextlib
import re
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

import server_doubles
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.config import EngineConfig
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.server.app import create_app
from onnxgen.server.observe.middleware import ObservedApp
from tiny_tokenizer import VOCAB_SIZE

WAIT_S = 30


class Gated(FakeBackend):
    """Steps wait while the gate is closed."""

    def __init__(self) -> None:
        super().__init__(VOCAB_SIZE, max_context=1024, block_size=16)
        self.gate = threading.Event()
        self.gate.set()

    def execute(self, step, cache):
        assert self.gate.wait(WAIT_S)
        return super().execute(step, cache)


@contextlib.contextmanager
def _server(folder, *, backend=None, seqs=2, **settings) -> Iterator[httpx.Client]:
    services = server_doubles.fake_services(
        folder,
        backend=backend,
        engine=EngineConfig(scheduler=SchedulerConfig(max_seqs=seqs), cache_tokens=4096),
        settings={"api_key": ("alice=sk-alice",), "admin_key": ("sk-root",), **settings},
    )
    app = ObservedApp(create_app(services), metrics=services.observer.metrics)
    with server_doubles.running(app) as url, httpx.Client(base_url=url, timeout=WAIT_S) as client:
        _until(lambda: client.get("/v1/status").json()["models"][0].get("running") is not None)
        yield client


def _until(condition):
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return found


def _ask(client, prompt, *, tokens=8, **more):
    body = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "ignore_eos": True}
    return client.post("/v1/completions", json=body | more)


def _numbers(client) -> dict[str, float]:
    text = client.get("/metrics").text
    return {
        name: float(value)
        for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    }


PROMPT = "the same beginning for all of them, and long enough for a block of the cache"


def test_numbers_after_requests_are_those_of_the_requests(tmp_path):
    with _server(tmp_path) as client:
        usages = []
        for _ in range(3):
            answer = _ask(client, PROMPT, tokens=8)
            assert answer.status_code == 200, answer.text
            usages.append(answer.json()["usage"])
        refused = _ask(client, PROMPT, temperature=-1)
        assert refused.status_code >= 400
        prompts = sum(usage["prompt_tokens"] for usage in usages)
        cached = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages)
        # what the engine says comes within a second or two
        numbers = _until(
            lambda: (
                found
                if (found := _numbers(client)).get('onnxgen_engine_requests_total{model="tiny"}') == 3
                and found['onnxgen_sequences_running{model="tiny"}'] == 0
                else None
            )
        )
        tiny = '{model="tiny"}'
        assert numbers[f"onnxgen_prompt_tokens_total{tiny}"] == prompts
        assert numbers[f"onnxgen_cached_prompt_tokens_total{tiny}"] == cached > 0
        assert numbers[f"onnxgen_completion_tokens_total{tiny}"] == 24
        assert numbers[f"onnxgen_time_to_first_token_seconds_count{tiny}"] == 3
        assert numbers[f"onnxgen_queue_seconds_count{tiny}"] == 3
        assert numbers[f"onnxgen_prefix_hit_tokens_total{tiny}"] == cached
        assert numbers[f"onnxgen_engine_generated_tokens_total{tiny}"] == 24
        ok = 'onnxgen_requests_total{endpoint="completions",model="tiny",outcome="ok"}'
        assert numbers[ok] == 3
        assert (
            numbers['onnxgen_http_responses_total{method="POST",route="/v1/completions",status="200"}'] == 3
        )
        assert numbers['onnxgen_requests_in_progress{endpoint="completions",model="tiny"}'] == 0


def test_status_says_who_runs_and_who_waits(tmp_path):
    backend = Gated()
    with _server(tmp_path, backend=backend, seqs=2, node_id="node-7") as client:
        backend.gate.clear()
        asking = [
            threading.Thread(target=_ask, args=(client, f"{PROMPT} {i}"), kwargs={"tokens": 30})
            for i in range(3)
        ]
        for thread in asking:
            thread.start()
        _until(lambda: client.get("/v1/status").json()["in_progress"] == 3)
        backend.gate.set()
        for thread in asking:
            thread.join()
        status = _until(
            lambda: (
                found
                if (found := client.get("/v1/status", params={"prefixes": 5}).json())["models"][0]["running"]
                == 0
                and found["models"][0]["kv_usage"] == 0
                else None
            )
        )
    assert (status["node_id"], status["status"], status["draining"]) == ("node-7", "ok", False)
    (model,) = status["models"]
    assert (model["id"], model["state"], model["waiting"], model["context_length"]) == (
        "tiny",
        "ready",
        0,
        1024,
    )
    assert model["kv_free_tokens"] == 4096
    assert model["block_size"] == 16
    assert len(model["prefixes"]) == 5
    assert all(re.fullmatch("[0-9a-f]{32}", p["key"]) and p["tokens"] % 16 == 0 for p in model["prefixes"])


def test_resources_have_budgets_and_use(tmp_path):
    with _server(tmp_path, seqs=3) as client:
        _ask(client, PROMPT)
        found = client.get("/v1/resources").json()
    assert found["server_bytes"] > 10**7
    assert found["server_peak_bytes"] >= found["server_bytes"] // 2
    assert found["budget"]["loaded"] == 1
    assert found["max_sessions"] == 256
    (model,) = found["models"]
    assert (model["cache_tokens"], model["block_size"], model["max_seqs"]) == (4096, 16, 3)
    full = model["full"]
    assert full["blocks"] == full["in_use"] + full["cached"] + full["free"] == 256
    assert full["cached"] > 0
    assert "window" not in model  # what there is not is not shown


@pytest.mark.parametrize("path", ["config", "sessions", "kv", "trace"])
def test_debugging_is_not_there_unless_it_is_enabled(tmp_path, path):
    services = server_doubles.fake_services(tmp_path)
    with server_doubles.running(create_app(services)) as url:
        answer = httpx.get(f"{url}/v1/debug/{path}")
    assert answer.status_code in (404, 500)  # without protection errors have no form yet
    assert "settings" not in answer.text


def test_configuration_is_shown_without_keys(tmp_path):
    with _server(tmp_path, enable_debug=True, default=("temperature=0",)) as client:
        found = client.get("/v1/debug/config")
    assert "sk-" not in found.text
    assert found.json()["settings"]["api_key"] == ["alice=***"]
    assert found.json()["settings"]["admin_key"] == ["***"]
    assert found.json()["settings"]["default"] == ["temperature=0"]
    assert found.json()["models"][0]["entry"]["id"] == "tiny"
    assert found.json()["models"][0]["runtime"]["backend"]
    assert found.json()["versions"]["onnxgen"]


def test_sessions_are_shown_without_what_opens_or_fills_them(tmp_path):
    with _server(tmp_path, enable_debug=True) as client:
        made = client.post("/v1/sessions", json={"messages": [{"role": "system", "content": "hush"}]}).json()
        found = client.get("/v1/debug/sessions")
    assert found.json()["count"] == 1
    assert made["id"] not in found.text
    assert "hush" not in found.text


def test_sequences_are_shown_by_the_request_s_id_while_they_run(tmp_path):
    backend = Gated()
    with _server(tmp_path, backend=backend, enable_debug=True) as client:
        long = threading.Thread(target=_ask, args=(client, PROMPT), kwargs={"tokens": 900})
        original = backend.execute

        def slowly(step, cache):
            time.sleep(0.01)
            return original(step, cache)

        backend.execute = slowly
        long.start()
        sequences = _until(lambda: client.get("/v1/debug/kv").json()["models"]["tiny"]["sequences"])
        trace = client.get("/v1/debug/trace").json()
        backend.execute = original
        long.join()
        ended = client.get("/v1/debug/trace", params={"seconds": 60}).json()
    name = sequences[0]["name"]
    assert len(name) > 8
    requests = [e for e in trace["traceEvents"] if e.get("cat") == "request"]
    assert [e["args"]["request_id"] for e in requests] == [name]
    steps = [e for e in ended["traceEvents"] if e.get("name") == "step"]
    (request,) = (e for e in ended["traceEvents"] if e.get("cat") == "request")
    inside = [
        s for s in steps if request["ts"] <= s["ts"] and s["ts"] + s["dur"] <= request["ts"] + request["dur"]
    ]
    assert len(inside) >= 890  # one clock for both
