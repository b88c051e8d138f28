from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import pytest
from fastapi import FastAPI
from pydantic import BaseModel

from onnxgen.server.app import create_app
from onnxgen.server.error_answers import error_body
from onnxgen.server.errors import ApiError
from onnxgen.server.generation.messages import normalized_messages
from onnxgen.server.openapi import document_errors
from server_doubles import client, fake_services, server


class Body(BaseModel):
    a: int


@pytest.fixture(scope="module")
def document(tmp_path_factory) -> dict[str, Any]:
    return create_app(fake_services(tmp_path_factory.mktemp("server"))).openapi()


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_every_path_tells_of_its_errors_and_none_of_422(document):
    for path, _, operation in operations(document):
        answers = operation["responses"]
        assert {"400", "401", "403", "429", "500", "503"} <= set(answers), path
        assert "422" not in answers
        if "requestBody" in operation:
            assert {"404", "408", "413"} <= set(answers)
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_reference_leads_somewhere(document):
    def references(value):
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            for inner in value.values():
                yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    found = set(references(document))
    assert found
    for reference in found:
        target = document
        for part in reference.removeprefix("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]


def test_error_bodies_are_as_documented(document):
    schemas = document["components"]["schemas"]
    error = ApiError(404, "no", code="model_not_found")
    openai = error_body(error, path="/v1/chat/completions", request_id="r")
    anthropic = error_body(error, path="/v1/messages", request_id="r")
    jsonschema.validate(openai, schemas["Error"])
    jsonschema.validate(anthropic, schemas["AnthropicError"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(openai, schemas["AnthropicError"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(anthropic, schemas["Error"])


def test_answers_that_a_route_documents_itself_stay(document):
    assert "$ref" not in document["paths"]["/health"]["get"]["responses"]["503"]


def test_keys_are_documented_where_they_are_asked_for(tmp_path):
    document = create_app(fake_services(tmp_path, settings={"api_key": ["one"]})).openapi()
    for path, _, operation in operations(document):
        assert ("security" in operation) == (path not in ("/health", "/metrics")), path
    assert set(document["components"]["securitySchemes"]) == {"Bearer", "ApiKey"}


def test_a_document_that_is_made_anew_is_complete_again():
    app = FastAPI()
    document_errors(app, asks_for_keys=False)
    assert app.openapi() is app.openapi()

    @app.post("/later/{x}")
    async def later(x: str, body: Body) -> None: ...

    app.openapi_schema = None
    assert "413" in app.openapi()["paths"]["/later/{x}"]["post"]["responses"]


def test_the_document_and_its_page_are_offered_unless_told_otherwise(tmp_path, document):
    async def asked(app):
        async with client(app) as c:
            return await asyncio.gather(c.get("/openapi.json"), c.get("/openapi.json"), c.get("/docs"))

    first, second, page = asyncio.run(asked(server(tmp_path / "with")))
    assert first.json() == second.json() == json.loads(json.dumps(document))
    assert "openapi.json" in page.text
    without = server(tmp_path / "without", settings={"enable_docs": False})
    assert {answer.status_code for answer in asyncio.run(asked(without))} == {404}


@pytest.mark.parametrize(
    ("message", "is_right"),
    [
        ({"role": "user", "content": "x"}, True),
        ({"role": "user"}, True),
        ({"role": "developer", "content": None, "name": None}, True),
        ({"role": "user", "content": [{"type": "input_text", "text": "x"}, "y"]}, True),
        ({"role": "user", "content": [{"type": "text"}]}, False),
        ({"role": "user", "content": [{"type": "text", "text": None}]}, False),
        ({"role": "user", "content": [{"type": "refusal", "refusal": 1}]}, False),
        ({"role": "user", "content": [{"type": "poem", "text": "x"}]}, False),
        ({"role": "user", "content": [{"text": "x"}]}, False),
        ({"role": "user", "content": {}}, False),
        ({"role": "user", "content": "x", "name": 1}, False),
        ({"role": "root", "content": "x"}, False),
        ({"content": "x"}, False),
        ({"role": None, "content": "x"}, False),
        ({"role": "tool", "content": "x", "tool_call_id": "1"}, True),
        ({"role": "tool", "content": "x"}, False),
        ({"role": "tool", "content": "x", "tool_call_id": ""}, False),
        ({"role": "tool", "content": "x", "tool_call_id": None}, False),
        ({"role": "assistant", "content": None, "refusal": "no"}, True),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}, True),
        ({"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f"}}]}, True),
        ({"role": "assistant", "tool_calls": [{"id": "1"}]}, False),
        ({"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}, False),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]}, False),
        ({"role": "assistant", "tool_calls": {}}, False),
        ({"role": "assistant", "refusal": 1}, False),
    ],
)  # fmt: skip
def test_the_document_tells_of_messages_what_the_server_takes(document, message, is_right):
    schema = document["components"]["schemas"]["ChatRequest"]["properties"]["messages"]
    assert jsonschema.Draft202012Validator(schema).is_valid([message]) is is_right
    try:
        normalized_messages([message], max_messages=1, media=None)
    except ApiError:
        assert not is_right
    else:
        assert is_right
