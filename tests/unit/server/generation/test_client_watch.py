"""What waits for the sake of a client ends when the client leaves."""

import asyncio
import time
import types

import httpx
import pytest

from model_doubles import WAIT_S, ScriptedLoader, entry, run, table, until
from onnxgen.server.app import create_app
from onnxgen.server.errors import ApiError
from onnxgen.server.generation.client_watch import ClientLeftError, asked_model, while_connected
from onnxgen.server.models import ModelState, ModelTable
from onnxgen.server.observe.observer import Observer
from onnxgen.server.services import Services
from onnxgen.server.sessions.store import SessionStore
from onnxgen.server.settings import ServerSettings
from server_doubles import running


class Channel:
    """A request's channel, whose client leaves when it is told to."""

    def __init__(self):
        self.left = asyncio.Event()

    async def receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}


def test_a_block_ends_when_its_client_leaves_and_not_before():
    async def scenario():
        channel, before = Channel(), asyncio.all_tasks()
        with while_connected(channel.receive):
            await asyncio.sleep(0)
        assert not [task for task in asyncio.all_tasks() - before if not task.cancelling()]
        asyncio.get_running_loop().call_soon(channel.left.set)
        with pytest.raises(ClientLeftError), while_connected(channel.receive):
            await asyncio.Event().wait()

    run(scenario())


def test_nobody_waits_for_a_model_whose_client_left_and_others_still_get_it():
    async def scenario():
        async with table(entry("a")) as t:
            t.loader.gates["a"] = asyncio.Event()
            services = types.SimpleNamespace(models=t.models, draining=False)
            leaving, staying = Channel(), Channel()

            async def ask(channel):
                async with asked_model(channel, services, "a") as model:
                    return model.id

            asking = [asyncio.create_task(ask(channel)) for channel in (leaving, staying)]
            await until(lambda: t.models.status("a").uses == 2)
            leaving.left.set()
            with pytest.raises(ClientLeftError):
                await asking[0]
            assert t.models.status("a").uses == 1
            assert t.models.status("a").state is ModelState.LOADING
            t.loader.gates["a"].set()
            assert await asking[1] == "a"
            async with asked_model(staying, services, "a"):
                staying.left.set()  # once it has its model, others look after that
                await asyncio.sleep(0.01)
            services.draining = True
            with pytest.raises(ApiError, match="about to end"):
                await ask(leaving)

    run(scenario())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "stream": True}),
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/responses", {"input": "hi"}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}),
        ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/embeddings", {"input": "hi"}),
        ("/tokenize", {"prompt": "hi"}),
    ],
)
def test_over_sockets(path, body):
    loader = ScriptedLoader()
    loader.gates["a"] = asyncio.Event()
    models = ModelTable([entry("a")], load=loader, tidy=lambda: None)
    services = Services(ServerSettings(), models, Observer(statistics_s=0), SessionStore())
    with running(create_app(services)) as url:
        with (
            httpx.Client(base_url=url, timeout=httpx.Timeout(WAIT_S, read=0.1)) as client,
            pytest.raises(httpx.ReadTimeout),
        ):
            client.post(path, json=body)
        deadline = time.monotonic() + WAIT_S
        while loader.under_way == 0 or httpx.get(f"{url}/v1/status").json()["models"][0]["in_use"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert loader.loaded == []
