"""The whole protection around small applications, as clients see it."""

from __future__ import annotations

import asyncio
import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI, Request

from onnxgen.server.error_answers import answer_errors
from onnxgen.server.observe.observer import Observer
from onnxgen.server.protection import protect
from onnxgen.server.settings import ServerSettings
from server_doubles import client

PREFLIGHT = {
    "Origin": "https://app.example",
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}


class Clock:
    def __init__(self):
        self.s = 0.0

    def __call__(self):
        return self.s


def routes() -> FastAPI:
    app = FastAPI(docs_url=None, openapi_url=None)
    answer_errors(app)

    def told(request: Request) -> dict[str, Any]:
        state = request.scope["state"]
        return {key: state.get(key) for key in ("tenant", "key_scope", "request_id")}

    for path in (
        "/health",
        "/",
        "/page/app.js",
        "/metrics",
        "/v1/models",
        "/v1/admin/models",
        "/v1/debug/kv",
    ):
        app.get(path)(told)
    app.post("/v1/admin/models")(told)
    app.post("/v1/messages")(told)

    @app.post("/v1/echo")
    async def echo(request: Request) -> dict[str, Any]:
        body = await request.body()
        return {"bytes": len(body), **told(request)}

    @app.get("/v1/fail")
    async def fail() -> None:
        raise RuntimeError("an inner secret")

    return app


def server(*, app: Any = None, now: Any = None, **settings: Any) -> Any:
    services = SimpleNamespace(settings=ServerSettings(**settings), observer=Observer())
    return protect(app or routes(), services, now=now or Clock())  # type: ignore[arg-type]


def ask(app: Any, method: str, path: str, **options: Any):
    async def go():
        async with client(app) as c:
            return await c.request(method, path, **options)

    return asyncio.run(go())


def code_of(answer):
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return answer.status_code, body["error"]["code"]


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


# Ids


def test_a_sane_request_id_is_kept_and_others_are_replaced():
    app = server()
    answer = ask(app, "GET", "/v1/models", headers={"X-Request-Id": "mine-1"})
    assert answer.headers["x-request-id"] == answer.json()["request_id"] == "mine-1"
    for odd in ("", "a b", "x" * 129, "a\tb", "ü".encode(), "<script>"):
        answer = ask(app, "GET", "/v1/models", headers={"X-Request-Id": odd})
        assert answer.headers["x-request-id"].startswith("req_")
    other = ask(app, "GET", "/v1/models").headers["x-request-id"]
    assert other != answer.headers["x-request-id"]


def test_every_answer_has_an_id_and_its_type_is_not_guessed():
    app = server(api_key=["k"], allowed_origin=["https://app.example"])
    for method, path, headers in (
        ("GET", "/v1/models", {}),
        ("GET", "/nothing", bearer("k")),
        ("OPTIONS", "/v1/models", PREFLIGHT),
        ("GET", "/v1/fail", bearer("k")),
    ):
        answer = ask(app, method, path, headers=headers)
        assert answer.headers["x-request-id"]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_failure_is_answered_and_logged_once_with_its_id(caplog):
    with caplog.at_level(logging.INFO):
        answer = ask(server(), "GET", "/v1/fail", headers={"X-Request-Id": "abc"})
    assert code_of(answer) == (500, None)
    assert "secret" not in answer.text
    (record,) = [r for r in caplog.records if r.name.startswith("onnxgen")]
    assert "abc" in record.getMessage()
    assert "an inner secret" in caplog.text


def test_a_failure_outside_of_the_framework_is_answered_too(caplog):
    async def app(scope, receive, send):
        raise RecursionError("an inner secret")

    answer = ask(server(app=app), "GET", "/v1/models")
    assert code_of(answer) == (500, None)
    assert "secret" not in answer.text


def test_an_answer_that_breaks_off_is_not_made_whole():
    sent = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
    asyncio.run(server(app=app)(scope, None, send))
    assert [m["type"] for m in sent] == ["http.response.start", "http.response.body"]
    assert sent[-1]["more_body"]


def test_web_sockets_are_declined():
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(server()({"type": "websocket", "path": "/", "headers": []}, None, send))
    assert sent[0]["type"] == "websocket.close"


# Keys


@pytest.mark.parametrize("headers", [bearer("two"), {"x-api-key": "two"}, {"authorization": "bearer  two "}])
def test_a_key_opens_in_either_header_and_names_the_tenant(headers):
    answer = ask(server(api_key=["alice=one", "bob=two"]), "GET", "/v1/models", headers=headers)
    assert answer.status_code == 200
    assert (answer.json()["tenant"], answer.json()["key_scope"]) == ("bob", "user")


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({}, "key is needed"),
        (bearer("wrong"), "not known"),
        (bearer(""), "key is needed"),
        ({"Authorization": "Basic b25lOg=="}, "Bearer"),
        ({"Authorization": "one"}, "Bearer"),
        ({"Authorization": "Bearer one two"}, "not known"),
        ({"x-api-key": "x" * 5000}, "not known"),
        ({"Authorization": b"Bearer \xff\xfe"}, "not known"),
        ({"Authorization": "Bearer wrong", "x-api-key": "one"}, "not known"),
    ],
)
def test_without_a_known_key_nothing_opens(headers, said, caplog):
    app = server(api_key=["one"])
    with caplog.at_level(logging.DEBUG):
        for path in ("/v1/models", "/nothing", "/v1/admin/models"):
            answer = ask(app, "GET", path, headers=headers)
            assert code_of(answer) == (401, "invalid_api_key")
            assert answer.headers["www-authenticate"] == "Bearer"
            assert said in answer.json()["error"]["message"]
    assert "wrong" not in answer.text
    assert not [r for r in caplog.records if "wrong" in r.getMessage() and r.name.startswith("onnxgen")]


def test_open_paths_need_no_key():
    app = server(api_key=["one"])
    for path in ("/health", "/", "/page/app.js", "/metrics"):
        assert ask(app, "GET", path).status_code == 200
    for path in (
        "/health/",
        "http://127.0.0.1//health",
        "/healthx",
        "/page",
        "/metricsx",
        "/v1/models?x=/health",
    ):
        assert ask(app, "GET", path).status_code == 401
    assert ask(server(api_key=["one"], public_metrics=False), "GET", "/metrics").status_code == 401


def test_operators_paths_need_an_admin_key():
    app = server(api_key=["one"], admin_key=["root=two"])
    for path in ("/v1/admin/models", "/v1/debug/kv", "/v1/admin", "/v1/admin/nothing"):
        assert code_of(ask(app, "GET", path, headers=bearer("one"))) == (403, "needs_admin_key")
        assert ask(app, "GET", path, headers=bearer("two")).status_code in (200, 404)
    assert ask(app, "GET", "/v1/models", headers=bearer("two")).json()["key_scope"] == "admin"
    assert ask(app, "GET", "/v1/administration", headers=bearer("one")).status_code == 404


def test_without_an_admin_key_nobody_is_an_operator_where_keys_are_asked_for():
    answer = ask(server(api_key=["one"]), "GET", "/v1/admin/models", headers=bearer("one"))
    assert code_of(answer) == (403, "needs_admin_key")
    assert "--admin-key" in answer.json()["error"]["message"]


def test_without_keys_operators_are_those_of_the_machine():
    assert ask(server(), "GET", "/v1/admin/models").json()["key_scope"] == "admin"
    answer = ask(server(host="0.0.0.0"), "GET", "/v1/admin/models")
    assert code_of(answer) == (403, "needs_admin_key")
    assert ask(server(host="0.0.0.0"), "GET", "/v1/models").json()["tenant"] == "anonymous"


def test_a_path_behind_a_proxy_is_judged_as_routes_know_it():
    app = server(api_key=["one"], root_path="/ai/")
    assert ask(app, "GET", "/ai/health").status_code == 200
    for path in ("/ai/v1/admin/models", "/v1/admin/models"):  # whether the proxy leaves it out or not
        assert code_of(ask(app, "GET", path, headers=bearer("one"))) == (403, "needs_admin_key")
    assert ask(app, "GET", "/aix/health").status_code == 401


def test_refusals_on_anthropics_paths_have_its_form():
    answer = ask(server(api_key=["one"]), "POST", "/v1/messages", json={})
    assert answer.status_code == 401
    body = answer.json()
    assert body["type"] == "error"
    assert body["error"]["type"] == "authentication_error"
    assert body["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]


# Origins


def test_a_preflight_needs_no_key_and_refusals_can_be_read_by_the_page():
    app = server(api_key=["one"], allowed_origin=["https://app.example"])
    answer = ask(app, "OPTIONS", "/v1/echo", headers=PREFLIGHT)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert "authorization" in answer.headers["access-control-allow-headers"].lower()
    assert "POST" in answer.headers["access-control-allow-methods"]
    origin = {"Origin": "https://app.example"}
    for headers, status in ((origin, 401), ({**origin, **bearer("one")}, 200)):
        answer = ask(app, "GET", "/v1/models", headers=headers)
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "x-request-id" in answer.headers["access-control-expose-headers"].lower()
    answer = ask(app, "GET", "/v1/fail", headers={**origin, **bearer("one")})
    assert answer.status_code == 500
    assert answer.headers["access-control-allow-origin"] == "https://app.example"


def test_other_origins_are_not_let_in():
    app = server(api_key=["one"], allowed_origin=["https://app.example"])
    headers = {**PREFLIGHT, "Origin": "https://app.example.evil.example"}
    answer = ask(app, "OPTIONS", "/v1/echo", headers=headers)
    assert answer.status_code == 400
    assert "access-control-allow-origin" not in answer.headers
    answer = ask(server(), "GET", "/v1/models", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers


def test_all_origins_and_credentials():
    answer = ask(server(allowed_origin=["*"]), "OPTIONS", "/v1/echo", headers=PREFLIGHT)
    assert answer.headers["access-control-allow-origin"] == "*"
    app = server(allowed_origin=["*"], allow_credentials=True)
    answer = ask(app, "OPTIONS", "/v1/echo", headers=PREFLIGHT)
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert answer.headers["access-control-allow-credentials"] == "true"


# Hosts


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:80", "LOCALHOST.", "a.localhost", "10.1.2.3"],
)
def test_names_of_the_machine_and_addresses_are_its_own(host):
    assert ask(server(), "GET", "/v1/models", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "user@localhost"),
        *("localhost/x", "localhost:x", "[::1", "", "127.0.0.1:80:80", "127.1.evil", "xlocalhost"),
    ],
)
def test_foreign_names_are_refused_where_everybody_is_trusted(host):
    answer = ask(server(), "GET", "/v1/models", headers={"Host": host})
    assert answer.status_code in (400, 403)
    assert code_of(answer)[1] == "host_not_allowed"


def test_more_names_can_be_allowed():
    app = server(allowed_host=["Box", "*.example.org"])
    for host in ("box:80", "a.example.org", "a.b.example.org", "localhost"):
        assert ask(app, "GET", "/v1/models", headers={"Host": host}).status_code == 200
    for host in ("example.org", "boxx", "evilexample.org"):
        assert ask(app, "GET", "/v1/models", headers={"Host": host}).status_code == 403
    assert ask(server(allowed_host=["*"]), "GET", "/v1/models", headers={"Host": "any"}).status_code == 200


def test_any_name_will_do_where_keys_are_asked_for_or_others_are_let_in():
    for settings in ({"api_key": ["one"]}, {"host": "0.0.0.0"}):
        answer = ask(
            server(**settings), "GET", "/v1/models", headers={"Host": "box.example", **bearer("one")}
        )
        assert answer.status_code == 200


def test_pages_of_others_cannot_write():
    app = server(allowed_origin=["https://app.example"])
    for origin in ("https://evil.example", "null", "http://localhost:1", "http://127.0.0.1:1"):
        answer = ask(app, "POST", "/v1/admin/models", headers={"Origin": origin})
        assert code_of(answer) == (403, "origin_not_allowed")
    for origin in ("https://app.example", "http://127.0.0.1", "app://obsidian.md", "vscode-webview://1a2b"):
        assert ask(app, "POST", "/v1/admin/models", headers={"Origin": origin}).status_code == 200


# Rates


def test_requests_beyond_the_rate_are_told_when_to_come_back():
    clock = Clock()
    app = server(rate_limit=2, api_key=["a=one", "b=two"], now=clock)
    for left in ("1", "0"):
        answer = ask(app, "GET", "/v1/models", headers=bearer("one"))
        assert answer.headers["x-ratelimit-limit-requests"] == "2"
        assert answer.headers["x-ratelimit-remaining-requests"] == left
    answer = ask(app, "GET", "/v1/models", headers=bearer("one"))
    assert code_of(answer) == (429, "rate_limit_exceeded")
    assert answer.headers["retry-after"] == "30"
    assert ask(app, "GET", "/v1/models", headers=bearer("two")).status_code == 200
    assert ask(app, "GET", "/health").status_code == 200
    clock.s += 30.01
    assert ask(app, "GET", "/v1/models", headers=bearer("one")).status_code == 200


@pytest.mark.parametrize(
    ("trusted", "told_apart"), [([], False), (["10.0.0.0/8", "127.0.0.1"], True), (["10.0.0.1"], False)]
)
def test_callers_behind_a_trusted_proxy_are_told_apart(trusted, told_apart):
    app = server(rate_limit=1, trusted_proxy=trusted)

    def status(forwarded):
        return ask(app, "GET", "/v1/models", headers={"X-Forwarded-For": forwarded}).status_code

    assert status("192.0.2.1") == 200
    assert status("192.0.2.2") == (200 if told_apart else 429)
    # what a client writes itself stands before what the proxy adds
    assert status("192.0.2.3, 192.0.2.1") == 429
    assert status("192.0.2.1, 10.9.9.9") == 429


def test_wrong_keys_use_up_nobodys_rate():
    app = server(rate_limit=1, api_key=["one"])
    for _ in range(5):
        assert ask(app, "GET", "/v1/models", headers=bearer("wrong")).status_code == 401
    assert ask(app, "GET", "/v1/models", headers=bearer("one")).status_code == 200


# Bodies


async def in_pieces(*pieces, pause_s=0.0):
    for piece in pieces:
        yield piece
        await asyncio.sleep(pause_s)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_up_to_the_limit_and_no_further(chunked):
    app = server(max_body_mb=1000 / 2**20)

    def post(num_bytes):
        body = b" " * num_bytes
        return ask(app, "POST", "/v1/echo", content=in_pieces(body[:600], body[600:]) if chunked else body)

    assert post(1000).json()["bytes"] == 1000
    answer = post(1001)
    assert code_of(answer) == (413, "request_too_large")
    assert "1000 bytes" in answer.json()["error"]["message"]
    assert post(0).json()["bytes"] == 0


def test_a_length_that_lies_is_no_way_around():
    app = server(max_body_mb=1000 / 2**20)
    answer = ask(app, "POST", "/v1/echo", content=b"x" * 1001, headers={"Content-Length": "3"})
    assert answer.status_code == 413
    for length in ("9" * 5000, "-1", "1_000", "٣"):
        headers = {"Content-Length": length.encode()}
        assert ask(app, "POST", "/v1/echo", content=b"x", headers=headers).status_code in (200, 413)


def test_a_body_that_does_not_come_is_not_waited_for():
    async def trickle():
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    async def never():
        yield b"abc"
        await asyncio.sleep(60)

    app = server(body_timeout_s=0.2)
    for content in (trickle(), never()):
        answer = ask(app, "POST", "/v1/echo", content=content)
        assert code_of(answer) == (408, "body_timeout")


def test_a_client_that_leaves_before_its_body_came_is_not_answered():
    sent = []
    messages = [{"type": "http.request", "body": b"a", "more_body": True}, {"type": "http.disconnect"}]

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-length", b"9")]
    scope = {"type": "http", "method": "POST", "path": "/v1/echo", "headers": headers}
    asyncio.run(server()(scope, receive, send))
    assert sent == []


def test_a_body_is_nested_up_to_the_limit_and_no_further():
    app = server()
    headers = {"Content-Type": "application/json"}
    for depth, status in ((100, 200), (101, 400), (100_000, 400)):
        for text in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
            answer = ask(app, "POST", "/v1/echo", content=text, headers=headers)
            assert answer.status_code == status
    assert code_of(answer) == (400, "too_intricate")
    assert "100 levels" in answer.json()["error"]["message"]
    text = b"[" + b"[]," * 200_000 + b"[]]"
    answer = ask(app, "POST", "/v1/echo", content=text, headers=headers)
    assert code_of(answer) == (400, "too_intricate")
    headers["Content-Type"] = "Application/JSON; charset=utf-8"  # names of types have no case
    assert code_of(ask(app, "POST", "/v1/echo", content=text, headers=headers)) == (400, "too_intricate")
    text = json.dumps({"code": "[" * 1000}).encode()
    assert ask(app, "POST", "/v1/echo", content=text, headers=headers).status_code == 200


def test_a_client_that_leaves_after_its_body_is_noticed():
    seen = []

    async def app(scope, receive, send):
        seen.extend([await receive(), await receive()])

    messages = [
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.request", "body": b"c", "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def receive():
        return messages.pop(0)

    headers = [(b"host", b"localhost"), (b"content-length", b"3")]
    scope = {"type": "http", "method": "POST", "path": "/v1/echo", "headers": headers}
    asyncio.run(server(app=app)(scope, receive, None))
    assert seen == [
        {"type": "http.request", "body": b"abc", "more_body": False},
        {"type": "http.disconnect"},
    ]
