"""What clients get when something fails: one form, a field's name, and never much of what they sent."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Annotated, Any, Literal

import pytest
from fastapi import FastAPI, Query
from pydantic import BaseModel, Field

from onnxgen.errors import (
    ContextLengthError,
    DownloadError,
    EngineDeadError,
    GrammarError,
    KernelError,
    ModelFileError,
    ModelNotFoundError,
    NeverFitsError,
    QueueFullError,
    StateError,
)
from onnxgen.server.error_answers import answer_errors, error_body
from onnxgen.server.errors import ApiError, as_api_error
from onnxgen.server.invalid_requests import field_name
from server_doubles import client, server


class Text(BaseModel):
    type: Literal["text"]
    text: str


class Message(BaseModel):
    role: Literal["user", "assistant"]
    content: str | list[Text] | None = None


class Chat(BaseModel):
    messages: Annotated[list[Message], Field(min_length=1)]
    temperature: Annotated[float, Field(ge=0, le=2)] = 1


def application(error: BaseException | None = None) -> FastAPI:
    app = FastAPI()
    answer_errors(app)

    @app.post("/v1/chat/completions")
    async def chat(chat: Chat, top: Annotated[int, Query()] = 1) -> str:
        return "fine"

    @app.post("/v1/messages")
    async def messages(chat: Chat) -> str:
        return "fine"

    @app.get("/raise")
    async def fail() -> None:
        assert error is not None
        raise error

    @app.get("/v1/messages/raise")
    async def fail_messages() -> None:
        assert error is not None
        raise error

    return app


def ask(app: Any, method: str, path: str, **options: Any):
    async def go():
        async with client(app) as c:
            return await c.request(method, path, **options)

    return asyncio.run(go())


def error_of(answer: Any) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return body["error"]


def refused(body: Any, **options: Any) -> dict[str, Any]:
    answer = ask(application(), "POST", "/v1/chat/completions", json=body, **options)
    assert answer.status_code == 400
    return error_of(answer)


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({}, "messages", "field required"),
        ({"messages": []}, "messages", "at least 1"),
        ({"messages": [{"role": "user"}, {"role": "alien"}]}, "messages[1].role", "'user' or 'assistant'"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content", "valid string"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "text": ""}]}]},
            "messages[0].content",
            "'text'",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content", "text"),
        ({"messages": [{"role": "user"}], "temperature": 3}, "temperature", "less than or equal to 2"),
        ({"messages": "hello"}, "messages", "list"),
    ],
)
def test_the_field_at_fault_is_named(body, param, said):
    error = refused(body)
    assert error["param"].startswith(param)
    assert said in error["message"].lower()
    assert error["message"].startswith(param)
    assert error["type"] == "invalid_request_error"


def test_a_field_of_the_address_is_named():
    error = refused({"messages": [{"role": "user"}]}, params={"top": "x"})
    assert error["param"] == "top"


@pytest.mark.parametrize("body", [[], "text", 7, None, True])
def test_a_body_that_is_no_object_is_refused(body):
    assert "JSON object" in refused(body)["message"]


@pytest.mark.parametrize(
    "content", [b"{", b'{"messages": [}', b"", b"\xff\xfe", b'{"a":"\xff"}', b"[" * 100_000]
)
def test_a_body_that_is_no_json_is_refused(content):
    headers = {"Content-Type": "application/json"}
    answer = ask(application(), "POST", "/v1/chat/completions", content=content, headers=headers)
    assert answer.status_code == 400
    assert error_of(answer)["type"] == "invalid_request_error"


def test_another_content_type_is_told_the_right_one():
    answer = ask(application(), "POST", "/v1/chat/completions", data={"messages": "x"})
    assert answer.status_code == 400
    assert "Content-Type: application/json" in error_of(answer)["message"]


@pytest.mark.parametrize("secret", ["s3cret" * 1000, "\ud800" * 3000])
def test_little_of_a_request_is_repeated(secret):
    for body in (
        {"messages": secret},
        {"messages": [{"role": secret}]},
        {"messages": [{"role": "user", secret: 1, "content": secret}], "temperature": secret},
        {"messages": [{"role": "user", "content": [{"type": secret}] * 300}]},
    ):
        content = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        answer = ask(application(), "POST", "/v1/chat/completions", content=content, headers=headers)
        assert answer.status_code == 400
        assert len(answer.content) < 2000
        assert answer.text.count("s3cret") < 40


def test_unknown_paths_and_methods_have_the_envelope_too():
    answer = ask(application(), "GET", "/v1/nothing" + "x" * 5000)
    assert answer.status_code == 404
    assert error_of(answer)["code"] == "not_found"
    assert len(answer.content) < 500
    answer = ask(application(), "GET", "/v1/chat/completions")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert "POST" in error_of(answer)["message"]


def test_a_refused_method_is_told_all_that_the_path_takes(tmp_path):
    app = server(tmp_path)
    answer = ask(app, "PUT", "/v1/sessions/some/id")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, DELETE")
    assert ask(app, "DELETE", "/v1/sessions").headers["allow"] == "GET, POST"


@pytest.mark.parametrize(
    ("error", "status", "code", "kind"),
    [
        (
            ContextLengthError("70 tokens, 64 fit"),
            400,
            "context_length_exceeded",
            "invalid_request_error",
        ),
        (GrammarError("no such keyword"), 400, None, "invalid_request_error"),
        (NeverFitsError("needs 9 blocks of 4"), 400, "never_fits", "invalid_request_error"),
        (QueueFullError("256 wait"), 429, "queue_full", "rate_limit_error"),
        (EngineDeadError("signal 9"), 503, "engine_failed", "service_unavailable"),
        (StateError("closed"), 503, None, "service_unavailable"),
        (KernelError("node Secret failed"), 500, None, "server_error"),
        (RuntimeError("secret"), 500, None, "server_error"),
        (RecursionError(), 500, None, "server_error"),
        (ApiError(418, "x" * 5000, type="t", code="c", param="p"), 418, "c", "t"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_errors_of_ours_have_their_status(error, status, code, kind):
    answer = ask(application(error), "GET", "/raise")
    assert answer.status_code == status
    told = error_of(answer)
    assert (told["code"], told["type"]) == (code, kind)
    assert len(told["message"]) <= 1000
    assert "ecret" not in answer.text
    assert ("retry-after" in answer.headers) == (status in (429, 503))


def test_failures_of_the_model_are_logged_and_refusals_are_not(caplog):
    with caplog.at_level(logging.INFO, "onnxgen"):
        ask(application(GrammarError("x")), "GET", "/raise")
        assert not caplog.records
        # the end of an engine is told once, by whoever looks after it, not for each of its requests
        ask(application(EngineDeadError("killed")), "GET", "/raise")
        ask(application(StateError("closed")), "GET", "/raise")
        assert not caplog.records
        ask(application(KernelError("node Secret failed")), "GET", "/raise")
    assert "node Secret failed" in caplog.text


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
    ],
)
def test_paths_of_anthropics_api_have_its_form(status, kind):
    answer = ask(application(ApiError(status, "because")), "GET", "/v1/messages/raise")
    assert answer.status_code == status
    assert answer.json() == {
        "type": "error",
        "error": {"type": kind, "message": "because"},
        "request_id": None,
    }


def test_a_refused_field_of_anthropics_api_is_named_in_the_text():
    answer = ask(application(), "POST", "/v1/messages", json={"messages": []})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("messages: ")


def test_a_path_that_only_begins_like_anthropics_has_openais_form():
    assert "type" not in error_body(ApiError(404, "no"), path="/v1/messagesx", request_id=None)


@pytest.mark.parametrize(
    ("place", "kind", "name"),
    [
        (("body", "messages", 0, "role"), "literal_error", "messages[0].role"),
        (
            ("body", "messages", 0, "content", "list[Text]", 1, "text"),
            "missing",
            "messages[0].content[1].text",
        ),
        (("body", "messages", 0, "content", "str"), "string_type", "messages[0].content"),
        (("body", "messages", 9, "role"), "literal_error", "messages"),  # the body has no such place
        (("query", "limit"), "int_parsing", "limit"),
        (("body",), "missing", None),
        ((), "missing", None),
    ],
)
def test_names_of_types_are_no_names_of_fields(place, kind, name):
    body = {"messages": [{"role": "x", "content": [{"text": ""}, {}]}]}
    assert field_name(place, body, kind) == name


@pytest.mark.parametrize("kind", [ModelNotFoundError, DownloadError, ModelFileError, KernelError, OSError])
def test_no_file_of_the_server_is_named(kind: type[Exception]) -> None:
    told = as_api_error(kind("/secret/place/model.onnx is not there"))
    assert told.status >= 500
    assert "secret" not in json.dumps(told.body)
