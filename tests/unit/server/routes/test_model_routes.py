"""/health, /v1/models and /v1/admin, over tables of scripted models."""

import asyncio
import contextlib

import anthropic
import httpx2  # which anthropic's client is built on
import pytest

from model_doubles import entry, run, table, until
from onnxgen.errors import BackendError
from onnxgen.server.app import create_app
from onnxgen.server.models import TableLimits
from server_doubles import client, fake_services


@contextlib.asynccontextmanager
async def served(tmp_path, *entries, settings=None, **options):
    """A client of a server of scripted models, and its table."""
    services = fake_services(tmp_path, settings=settings)
    await services.models.aclose()
    async with table(*entries, **options) as t:
        services.models = t.models
        t.services = services
        async with client(create_app(services)) as t.client:
            yield t


ADMIN = {"enable_admin": True}


def test_health_turns_with_the_models(tmp_path):
    async def scenario():
        async with served(tmp_path, entry("org/a", preload=True), entry("b")) as t:

            async def health():
                answer = await t.client.get("/health")
                return answer.status_code, answer.json()

            t.loader.gates["org/a"] = asyncio.Event()
            await t.models.start()
            assert await health() == (
                503,
                {
                    "status": "loading",
                    "reason": "models are being loaded",
                    "models": {"org/a": "loading", "b": "unloaded"},
                },
            )
            t.loader.gates["org/a"].set()
            await t.models.preloaded()
            assert await health() == (
                200,
                {"status": "ok", "reason": None, "models": {"org/a": "ready", "b": "unloaded"}},
            )
            llm = t.loader.loaded[0].llm
            llm.may_restart.clear()
            llm.die("x" * 100_000)
            status, body = await health()
            assert (status, body["status"]) == (503, "unhealthy")
            assert "org/a" in body["reason"]
            assert len(body["reason"]) < 300
            llm.may_restart.set()
            await until(lambda: t.models.health.status == "ok")
            assert (await health())[0] == 200
            t.services.draining = True
            answer = await t.client.get("/health")
            assert (answer.status_code, answer.json()["status"]) == (503, "draining")
            assert answer.headers["retry-after"]

    run(scenario())


def test_models_are_listed_and_found_by_id_with_slashes_and_by_alias(tmp_path):
    async def scenario():
        async with served(
            tmp_path, entry("org/a", aliases=("gpt-4o",), adapters={"style": "/x"}), entry("b")
        ) as t:
            await t.models.load("org/a")
            listed = (await t.client.get("/v1/models")).json()
            assert listed["object"] == "list"
            assert [model["id"] for model in listed["data"]] == ["org/a", "b"]
            first, second = listed["data"]
            assert first == {
                "id": "org/a",
                "object": "model",
                "type": "model",
                "display_name": "org/a",
                "created": 1,
                "created_at": "1970-01-01T00:00:01Z",
                "lifecycle": "active",
                "owned_by": "onnxgen",
                "aliases": ["gpt-4o"],
                "state": "ready",
                "task": "generate",
                "max_model_len": 64,
                "max_input_tokens": 64,
                "adapters": ["style"],
            }
            assert (second["state"], second["max_model_len"]) == ("unloaded", None)
            assert second["created"] == int(t.services.started)
            for name in ("org/a", "org%2Fa", "gpt-4o"):
                assert (await t.client.get(f"/v1/models/{name}")).json() == first
            for name in ("org", "nowhere", "..%2Forg%2Fa"):
                answer = await t.client.get(f"/v1/models/{name}")
                assert answer.status_code == 404, name
                assert answer.json()["error"]["code"] == "model_not_found"

    run(scenario())


def test_anthropics_client_lists_models_page_by_page(tmp_path):
    async def scenario():
        ids = ["org/a", "b", "c"]
        async with served(tmp_path, *map(entry, ids)) as t:
            http = httpx2.AsyncClient(transport=httpx2.ASGITransport(create_app(t.services)))
            claude = anthropic.AsyncAnthropic(base_url="http://127.0.0.1", api_key="x", http_client=http)
            for options in ({}, {"limit": 1}, {"limit": 2}, {"limit": 3}):
                assert [model.id async for model in claude.models.list(**options)] == ids
            back = [model.id async for model in claude.models.list(limit=2, before_id="c")]
            assert back == ["org/a", "b"]
            page = await claude.models.list(limit=1, before_id="c")
            assert ([model.id for model in page.data], page.has_more) == (["b"], True)
            page = await claude.models.list(after_id="c")
            assert (page.data, page.first_id, page.last_id, page.has_more) == ([], None, None, False)
            model = await claude.models.retrieve("org/a")
            assert (model.type, model.display_name, model.lifecycle) == ("model", "org/a", "active")
            assert model.created_at.timestamp() == int(t.services.started)
            for wrong in ({"after_id": "d"}, {"before_id": "d"}, {"after_id": "b", "before_id": "c"}):
                with pytest.raises(anthropic.BadRequestError):
                    await claude.models.list(**wrong)

    run(scenario())


def test_admin_is_not_there_unless_it_is_enabled(tmp_path):
    async def scenario():
        async with served(tmp_path, entry("a")) as t:
            for method, path in (
                ("GET", "models"),
                ("POST", "models/a/load"),
                ("GET", "limits"),
                ("DELETE", "models/a"),
            ):
                answer = await t.client.request(method, f"/v1/admin/{path}")
                assert answer.status_code == 404
            assert not t.loader.loaded

    run(scenario())


def test_admin_loads_warms_restarts_and_unloads(tmp_path):
    async def scenario():
        async with served(tmp_path, entry("org/a"), entry("b"), settings=ADMIN) as t:

            async def ask(method, path, **options):
                answer = await t.client.request(method, f"/v1/admin/models/{path}", **options)
                return answer.status_code, answer.json()

            status, model = await ask("POST", "org/a/load")
            assert (status, model["state"], model["uses"], model["source"]) == (
                200,
                "ready",
                0,
                "/nowhere/org/a",
            )
            llm = t.loader.loaded[0].llm
            assert (await ask("POST", "org/a/warm"))[0] == 200
            assert [name for name, _ in llm.calls] == ["complete", "chat", "complete"]
            assert (await ask("POST", "org/a/restart"))[1]["restarts"] == 1
            async with t.models.use("org/a"):
                status, body = await ask("POST", "org/a/unload")
                assert (status, body["error"]["code"]) == (409, "model_in_use")
                assert (await ask("GET", "org/a"))[1]["uses"] == 1
                status, model = await ask("DELETE", "org/a", params={"force": True})
                assert (status, model["state"]) == (200, "unloaded")
            assert llm.closed
            listed = (await t.client.get("/v1/admin/models")).json()
            assert [m["state"] for m in listed["data"]] == ["unloaded", "unloaded"]
            assert listed["limits"]["loaded_models"] == 0
            t.loader.failures["b"] = [BackendError("/secret/file")]
            status, body = await ask("POST", "b/load")
            assert (status, body["error"]["code"]) == (503, "model_unavailable")
            assert (await ask("GET", "b"))[1]["error"] == "/secret/file"
            assert (await ask("POST", "none/load"))[0] == 404

    run(scenario())


def test_admin_changes_limits_of_the_table_and_of_an_engine(tmp_path):
    async def scenario():
        limits = TableLimits(max_loaded=3, keep_alive_s=7.0)
        async with served(tmp_path, entry("a"), entry("b"), settings=ADMIN, limits=limits) as t:
            t.loader.sizes = {"a": 10, "b": 20}
            await t.models.start()
            await t.models.load("a")
            await t.models.load("b")
            before = (await t.client.get("/v1/admin/limits")).json()
            assert before == {
                "max_loaded_models": 3,
                "memory_bytes": None,
                "keep_alive_s": 7.0,
                "used_bytes": 30,
                "loaded_models": 2,
            }
            after = (
                await t.client.patch("/v1/admin/limits", json={"max_loaded_models": 1, "keep_alive_s": None})
            ).json()
            assert (after["max_loaded_models"], after["keep_alive_s"]) == (1, None)
            await until(lambda: len(t.models.loaded()) == 1)
            for wrong in ({"max_loaded_models": 0}, {"keep_alive_s": -1}, {"max_models": 1}):
                assert (await t.client.patch("/v1/admin/limits", json=wrong)).status_code in (400, 422)

            async def reconfigure(config):
                llm.scheduler_config = config

            llm = t.models.loaded()[0].llm
            llm.reconfigure = reconfigure
            path = f"/v1/admin/models/{t.models.loaded()[0].id}/limits"
            changed = (await t.client.patch(path, json={"max_seqs": 3, "policy": "fair"})).json()
            assert (changed["max_seqs"], changed["policy"], changed["max_step_tokens"]) == (3, "fair", 512)
            assert (await t.client.get(path)).json() == changed
            answer = await t.client.patch(path, json={"max_step_tokens": 1})
            assert answer.status_code == 400
            assert "max_step_tokens is 1, but max_seqs=3" in answer.json()["error"]["message"]

    run(scenario())


@pytest.mark.parametrize("path", ["/health", "/v1/models"])
def test_answers_do_not_wait_for_models_that_load(tmp_path, path):
    async def scenario():
        async with served(tmp_path, entry("a", preload=True)) as t:
            t.loader.gates["a"] = asyncio.Event()
            await t.models.start()
            async with asyncio.timeout(10):
                assert (await t.client.get(path)).status_code in (200, 503)

    run(scenario())
