"""A served model whose engine is killed under load: clients are told at once, and the service is back by itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time

import httpx
import pytest

from onnxgen.foundations.config_sources import load_runtime_config
from onnxgen.server.app import create_app
from onnxgen.server.settings import ServerSettings
from onnxgen.server.startup import open_services
from real_models import checkpoint_file
from server_doubles import running

pytestmark = [
    pytest.mark.network,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system kills in another way"),
]

CLIENTS = 6
WAIT_S = 120


@pytest.fixture(scope="module")
def url():
    checkpoint_file("smollm2", fetch=True)
    settings = ServerSettings(model="smollm2", cache_tokens=16384, enable_admin=True, stats_interval_s=0)
    with running(create_app(open_services(settings, load_runtime_config().config))) as url:
        yield url


async def wait_until(question):
    async with asyncio.timeout(WAIT_S):
        while not await question():
            await asyncio.sleep(0.02)


async def stream(client, begun, number):
    """What a client heard last, and when."""
    body = {
        "model": "smollm2",
        "messages": [{"role": "user", "content": f"Tell story number {number}."}],
        "max_tokens": 4000,
        "ignore_eos": True,
        "stream": True,
    }
    events = []
    async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                events.append(line.removeprefix("data: "))
                begun.add(number)
    return time.perf_counter(), events


async def whole(client, **body):
    """When an answer came that does not stream, its status and its body."""
    answer = await client.post("/v1/completions", json=body)
    return time.perf_counter(), answer.status_code, answer.json()


def test_a_killed_engine_ends_answers_at_once_and_is_back_by_itself(url):
    async def scenario():
        async with httpx.AsyncClient(base_url=url, timeout=WAIT_S) as client:

            async def is_healthy():
                return (await client.get("/health")).status_code == 200

            await wait_until(is_healthy)
            engine = (await client.get("/v1/admin/models/smollm2")).json()["engine_pid"]
            begun: set[int] = set()
            streams = [asyncio.create_task(stream(client, begun, i)) for i in range(CLIENTS)]
            others = [
                asyncio.create_task(whole(client, prompt=f"Story {i}:", max_tokens=4000, ignore_eos=True))
                for i in range(2)
            ]

            async def all_begun():
                return len(begun) == CLIENTS

            await wait_until(all_begun)
            os.kill(engine, signal.SIGKILL)
            killed = time.perf_counter()
            health, refused = await asyncio.gather(
                wait_until_status(client, "/health", 503),
                wait_until_refused(client),
            )
            assert health["status"] == "unhealthy"
            assert "smollm2" in health["reason"]
            assert refused.headers["retry-after"]
            assert refused.json()["error"]["code"] == "engine_failed"
            ends = []
            for end, events in await asyncio.gather(*streams):
                ends.append(end - killed)
                errors = [json.loads(event)["error"] for event in events if '"error"' in event]
                assert len(errors) == 1
                assert errors[0]["code"] == "engine_failed"
            for end, status, body in await asyncio.gather(*others):
                ends.append(end - killed)
                assert (status, body["error"]["code"]) == (503, "engine_failed")
            print(f"the last error came {max(ends):.2f} s after the engine's end")
            await wait_until(is_healthy)
            print(f"the service was back {time.perf_counter() - killed:.2f} s after it")
            model = (await client.get("/v1/admin/models/smollm2")).json()
            assert model["engine_pid"] != engine
            assert (model["restarts"], model["uses"], model["pending"]) == (1, 0, 0)
            _, status, answer = await whole(
                client, prompt="The capital of France is", max_tokens=4, temperature=0
            )
            assert status == 200
            assert "Paris" in answer["choices"][0]["text"]

    asyncio.run(scenario())


async def wait_until_status(client, path, status):
    """The body of the first answer of that status."""
    async with asyncio.timeout(WAIT_S):
        while (answer := await client.get(path)).status_code != status:
            await asyncio.sleep(0.01)
    return answer.json()


async def wait_until_refused(client):
    """The first answer to a new request that is no success."""
    async with asyncio.timeout(WAIT_S):
        while True:
            answer = await client.post("/v1/completions", json={"prompt": "x", "max_tokens": 1})
            if answer.status_code == 503:
                return answer
