"""`answer_errors`: every error of an application becomes an answer in the form that its client knows.

Paths of Anthropic's API answer in its form, all others in OpenAI's:

    /v1/messages   {"type": "error", "error": {"type", "message", "details": {"error_code"}}, "request_id"}
    elsewhere      {"error": {"message", "type", "param", "code"}}
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from onnxgen.errors import OnnxgenError
from onnxgen.server.errors import ApiError, as_api_error
from onnxgen.server.invalid_requests import invalid_request, short

_log = logging.getLogger(__name__)

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")

_ANTHROPIC_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
}
"""By status: https://docs.anthropic.com/en/api/errors"""


def answer_errors(app: FastAPI) -> None:
    """Let an application answer every error that its routes raise."""
    app.add_exception_handler(ApiError, _answer)
    app.add_exception_handler(OnnxgenError, _answer)
    app.add_exception_handler(RequestValidationError, _answer)
    app.add_exception_handler(HTTPException, _answer)
    # Starlette raises it again after the answer, for the log of whoever calls the application.
    app.add_exception_handler(Exception, _answer)


async def send_error(error: BaseException, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with an error, below the routes."""
    await error_response(error, scope)(scope, receive, send)


def error_response(error: BaseException, scope: Scope) -> Response:
    """The answer to a request that failed."""
    told = told_error(error, scope)
    body = error_body(told, path=route_path(scope), request_id=request_id_of(scope))
    return Response(_json(body), status_code=told.status, headers=told.headers, media_type="application/json")


def error_body(error: ApiError, *, path: str, request_id: str | None) -> dict[str, Any]:
    """What an error looks like to the clients of a path.

    Args:
        error: What to tell.
        path: Of the request, without what a proxy puts before it.
        request_id: Of the request.
    """
    if path != "/v1/messages" and not path.startswith("/v1/messages/"):
        return error.body
    kind = _ANTHROPIC_TYPES.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
    told: dict[str, Any] = {"type": kind, "message": error.message}
    if error.code is not None:
        told["details"] = {"error_code": error.code}
    return {"type": "error", "error": told, "request_id": request_id}


def told_error(error: BaseException, scope: Scope) -> ApiError:
    """What a client is told of an error that a route raised, or that came of a request before any route."""
    match error:
        case RequestValidationError():
            return invalid_request(cast(list[dict[str, Any]], error.errors()), error.body)
        case HTTPException():
            return _of_framework(error, scope)
        case _:
            return as_api_error(error)


def route_path(scope: Scope) -> str:
    """The path of a request as routes know it: without the one under which a proxy shows the server."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(root + "/") else path


def request_id_of(scope: Scope) -> str | None:
    """The id of a request, where it has one already."""
    return scope.get("state", {}).get("request_id")


async def _answer(request: Request, error: Exception) -> Response:
    response = error_response(error, request.scope)
    # why an engine ended is told once, not for each of its requests
    if response.status_code == 500 and isinstance(error, OnnxgenError):
        _log.error("request %s failed", request_id_of(request.scope), exc_info=error)
    return response


def _of_framework(error: HTTPException, scope: Scope) -> ApiError:
    path, method = short(route_path(scope)), scope["method"][:20]
    headers = dict(error.headers or {})
    match error.status_code:
        case 404:
            return ApiError(404, f"there is nothing at {path!r}", code="not_found", headers=headers)
        case 405:
            # The framework names those of the first route that fits the path, and several may.
            headers["Allow"] = allowed = ", ".join(_methods_at(scope))
            message = f"{path!r} does not take {method}; it takes {allowed}"
            return ApiError(405, message, code="method_not_allowed", headers=headers)
        case status:
            kind = "server_error" if status >= 500 else "invalid_request_error"
            return ApiError(status, short(str(error.detail)), type=kind, headers=headers)


def _methods_at(scope: Scope) -> list[str]:
    """What the path of a request does take."""
    routes = cast(FastAPI, scope["app"]).routes
    return [
        method
        for method in _METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    ]


def _json(body: Any) -> bytes:
    try:
        return to_json(body)
    except ValueError:  # a lone surrogate, which a request may have written as an escape
        return to_json(_readable(body))


def _readable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {k: _readable(v) for k, v in cast(dict[str, Any], value).items()}
        case _:
            return value
