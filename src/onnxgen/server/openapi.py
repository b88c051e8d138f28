"""The OpenAPI document: with the errors of every path and how keys are sent, at ``/openapi.json``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from fastapi import FastAPI
from pydantic_core import to_json
from starlette.responses import Response

from onnxgen.server.protection.key_check import is_open

_METHODS = frozenset({"get", "put", "post", "delete", "patch", "head", "options"})
_FRAMEWORK_SCHEMAS = ("HTTPValidationError", "ValidationError")
_RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}

_ALWAYS = (400, 401, 403, 429, 500, 503)
_NAMING_SOMETHING = (404,)
_WITH_BODY = (408, 409, 413)
_ERRORS: Mapping[int, tuple[str, str]] = {
    400: ("Invalid", "The request is wrong; `param` names the field."),
    401: ("Unauthorized", "A key is needed, or the one that came is not known."),
    403: ("Forbidden", "The key, the name of the server or the page's origin does not allow this."),
    404: ("NotFound", "There is no model, or nothing else, of that name."),
    408: ("TooSlow", "The request did not come in time."),
    409: ("Busy", "What the request names is in use by another one."),
    413: ("TooLarge", "The request is too large."),
    429: ("TooMany", "Too many requests wait, or too many came with this key."),
    500: ("Failed", "The server failed; its log has more, under the request's id."),
    503: ("Unavailable", "The model is being loaded or restarted, or the server ends."),
}

_ERROR: dict[str, Any] = {
    "title": "Error",
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string", "description": "What was asked, what was found, what to do."},
                "type": {"type": "string", "description": "What kind of error it is."},
                "param": {
                    "anyOf": [{"type": "string"}, {"type": "null"}],
                    "description": "The field at fault, such as `messages[0].role`.",
                },
                "code": {
                    "anyOf": [{"type": "string"}, {"type": "null"}],
                    "description": "A word that programs tell the error by.",
                },
            },
        }
    },
}
_ANTHROPIC_ERROR: dict[str, Any] = {
    "title": "AnthropicError",
    "type": "object",
    "required": ["type", "error", "request_id"],
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["type", "message"],
            "properties": {"type": {"type": "string"}, "message": {"type": "string"}},
        },
        "request_id": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
}
_KEYS: dict[str, Any] = {
    "Bearer": {"type": "http", "scheme": "bearer", "description": "Authorization: Bearer KEY"},
    "ApiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


def document_errors(app: FastAPI, *, asks_for_keys: bool, public_metrics: bool = True) -> None:
    """Let the document of an application tell of errors and keys. No path answers with 422.

    Args:
        app: The application, whose routes may still come.
        asks_for_keys: Whether requests need a key.
        public_metrics: Whether ``/metrics`` needs none all the same.
    """
    plain: Callable[[], dict[str, Any]] = app.openapi
    documented: dict[str, Any] | None = None

    def openapi() -> dict[str, Any]:
        nonlocal documented
        document = plain()
        if document is not documented:  # the framework made it anew
            _complete(document, asks_for_keys=asks_for_keys, public_metrics=public_metrics)
            documented = document
        return document

    app.openapi = openapi


def offer_document(app: FastAPI) -> None:
    """Let an application give its document.

    Making the document takes a second, once: a thread does it, unlike the framework, whose own way stops all streams.
    """
    made = asyncio.Lock()

    @app.get("/openapi.json", include_in_schema=False)
    async def document() -> Response:  # pyright: ignore[reportUnusedFunction] - a route
        async with made:
            content = await asyncio.to_thread(lambda: to_json(app.openapi()))
        return Response(content, media_type="application/json")


def _complete(document: dict[str, Any], *, asks_for_keys: bool, public_metrics: bool) -> None:
    parts: dict[str, Any] = document.setdefault("components", {})
    schemas: dict[str, Any] = parts.setdefault("schemas", {})
    for name in _FRAMEWORK_SCHEMAS:
        schemas.pop(name, None)
    schemas |= {"Error": _ERROR, "AnthropicError": _ANTHROPIC_ERROR}
    parts["securitySchemes"] = _KEYS
    parts["responses"] = {
        prefix + name: _response(status, schema)
        for status, (name, _) in _ERRORS.items()
        for prefix, schema in (("", "Error"), ("Anthropic", "AnthropicError"))
    }
    for path, operation in _operations(document):
        answers: dict[str, Any] = operation.setdefault("responses", {})
        answers.pop("422", None)
        prefix = "Anthropic" if path.startswith("/v1/messages") else ""
        for status in _statuses(operation):
            name = prefix + _ERRORS[status][0]
            answers.setdefault(str(status), {"$ref": f"#/components/responses/{name}"})
        if asks_for_keys and not is_open(path, metrics=public_metrics):
            operation["security"] = [{name: []} for name in _KEYS]


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    paths = cast(dict[str, dict[str, Any]], document.get("paths", {}))
    for path, methods in paths.items():
        for method, operation in methods.items():
            if method in _METHODS:
                yield path, operation


def _statuses(operation: dict[str, Any]) -> Iterator[int]:
    yield from _ALWAYS
    has_body = "requestBody" in operation
    if has_body or operation.get("parameters"):
        yield from _NAMING_SOMETHING
    if has_body:
        yield from _WITH_BODY


def _response(status: int, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    response: dict[str, Any] = {"description": _ERRORS[status][1], "content": content}
    return response | ({"headers": _RETRY_AFTER} if status in (429, 503) else {})
