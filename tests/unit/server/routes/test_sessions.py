"""`/v1/sessions`: begin, list, read and forget conversations."""

import asyncio
import types

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse

import server_doubles
from onnxgen.server.errors import ApiError
from onnxgen.server.routes import sessions
from onnxgen.server.sessions.session import SessionLimits
from onnxgen.server.sessions.store import SessionStore
from onnxgen.server.settings import ServerSettings


class World:
    """The routes alone, with a tenant that each request's header names, as a key would."""

    def __init__(self, **settings):
        self.settings = ServerSettings(**settings)
        self.store = SessionStore(SessionLimits.of(self.settings), now=lambda: 5000.7)
        self.app = FastAPI()
        self.app.include_router(sessions.router)
        self.app.state.services = types.SimpleNamespace(settings=self.settings, sessions=self.store)

        @self.app.exception_handler(ApiError)
        async def say(_, error):
            return JSONResponse(error.body, error.status, headers=dict(error.headers))

        @self.app.middleware("http")
        async def name_tenant(request, call):
            if "tenant" in request.headers:
                request.state.tenant = request.headers["tenant"]
                request.state.key_scope = "user"
            return await call(request)

    def ask(self, *requests, tenant=None):
        """The answers to these requests, each a method, a path and perhaps a body."""

        async def go():
            headers = {"tenant": tenant} if tenant else {}
            async with server_doubles.client(self.app, headers=headers) as client:
                return [await client.request(m, p, json=b[0] if b else None) for m, p, *b in requests]

        return asyncio.run(go())


def test_a_conversation_is_begun_listed_read_and_forgotten():
    world = World(session_idle_s=60)
    begin = {"messages": [{"role": "system", "content": "be brief"}]}
    (made,) = world.ask(("POST", "/v1/sessions", begin))
    found = made.json()
    assert made.status_code == 200
    assert found["object"] == "session"
    assert found["id"].startswith("sess-")
    assert (found["created_at"], found["expires_at"]) == (5000, 5060)
    assert (found["message_count"], found["turns"], found["in_use"]) == (1, 0, False)
    path = f"/v1/sessions/{found['id']}"
    listed, read, deleted, gone, again = world.ask(
        ("GET", "/v1/sessions"), ("GET", path), ("DELETE", path), ("GET", path), ("DELETE", path)
    )
    assert listed.json() == {"object": "list", "data": [found], "has_more": False}
    assert read.json() == {**found, **begin}
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert [gone.status_code, again.status_code] == [404, 404]
    assert gone.json()["error"]["code"] == "session_not_found"


def test_a_body_is_not_needed():
    (made,) = World().ask(("POST", "/v1/sessions"))
    assert made.status_code == 200


def test_ids_of_clients_may_have_slashes():
    world = World()
    world.store.open("team/7", "")
    read, deleted = world.ask(("GET", "/v1/sessions/team/7"), ("DELETE", "/v1/sessions/team/7"))
    assert (read.json()["id"], deleted.status_code) == ("team/7", 204)


def test_a_list_says_whether_there_are_more():
    world = World()
    for number in range(5):
        world.store.open(str(number), "")
    some, all_of_them = world.ask(("GET", "/v1/sessions?limit=2"), ("GET", "/v1/sessions?limit=5"))
    assert [s["id"] for s in some.json()["data"]] == ["4", "3"]
    assert (some.json()["has_more"], all_of_them.json()["has_more"]) == (True, False)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_another_tenant_finds_nothing(method):
    world = World()
    world.store.open("secret", "a")
    (answer,) = world.ask((method, "/v1/sessions/secret"), tenant="b")
    (listed,) = world.ask(("GET", "/v1/sessions"), tenant="b")
    assert answer.status_code == 404
    assert listed.json()["data"] == []
    (mine,) = world.ask(("GET", "/v1/sessions/secret"), tenant="a")
    assert mine.status_code == 200


def test_too_much_to_begin_with_is_refused():
    world = World(max_messages=2, max_sessions_mb=0.001)
    message = {"role": "user", "content": "x" * 900}
    many, large, odd = world.ask(
        ("POST", "/v1/sessions", {"messages": [message] * 3}),
        ("POST", "/v1/sessions", {"messages": [message]}),
        ("POST", "/v1/sessions", {"messages": [{"role": "alien", "content": ""}]}),
    )
    assert (many.status_code, many.json()["error"]["param"]) == (400, "messages")
    assert (odd.status_code, odd.json()["error"]["param"]) == (400, "messages[0].role")
    assert (large.status_code, large.json()["error"]["code"]) == (413, "session_too_large")
    assert len(world.store) == 0


def test_callers_without_keys_are_not_shown_each_others_conversations():
    world = World()
    world.store.open("mine", "anonymous")
    listed, read = world.ask(("GET", "/v1/sessions"), ("GET", "/v1/sessions/mine"), tenant="anonymous")
    assert (listed.status_code, listed.json()["error"]["code"]) == (403, "sessions_not_listed")
    assert read.json()["id"] == "mine"
