"""`KeyCheck`: requests say who asks, and reach what that one may."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from onnxgen.server.error_answers import route_path, send_error
from onnxgen.server.errors import ApiError
from onnxgen.server.protection.keys import Key, KeyRing

ANONYMOUS = "anonymous"
"""The tenant of requests where no keys are asked for."""
_OPEN = frozenset({"/", "/health", "/docs", "/openapi.json", "/favicon.ico"})
_OPEN_BELOW = ("/page/",)
_OPERATOR = ("/v1/admin", "/v1/debug")
_MAX_KEY = 4096


def is_open(path: str, *, metrics: bool) -> bool:
    """Whether a path needs no key.

    Args:
        path: As routes know it.
        metrics: Whether ``/metrics`` is one of them.
    """
    return path in _OPEN or path.startswith(_OPEN_BELOW) or (metrics and path == "/metrics")


class KeyCheck:
    """Refuses requests without a key that opens their path.

    ``scope["state"]["tenant"]`` is the key's name, ``scope["state"]["key_scope"]`` ``user`` or ``admin``.

    Args:
        app: What is inside.
        keys: The keys.
        public_metrics: Whether ``/metrics`` needs none.
        trust_all: Whether everybody is an operator where no keys are asked for at all.
    """

    def __init__(self, app: ASGIApp, *, keys: KeyRing, public_metrics: bool, trust_all: bool) -> None:
        self._app, self._keys = app, keys
        self._public_metrics, self._trust_all = public_metrics, trust_all

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection, as ASGI says."""
        if scope["type"] == "http":
            error = self._refusal(scope)
            if error is not None:
                await send_error(error, scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> ApiError | None:
        path, state = route_path(scope), scope.setdefault("state", {})
        if not self._keys.is_asked_for:
            state["tenant"], state["key_scope"] = ANONYMOUS, "admin" if self._trust_all else "user"
        elif is_open(path, metrics=self._public_metrics):
            state["tenant"], state["key_scope"] = ANONYMOUS, "user"
        else:
            key = self._presented(Headers(scope=scope))
            if isinstance(key, ApiError):
                return key
            state["tenant"], state["key_scope"] = key.name, key.scope
        return None if state["key_scope"] == "admin" or not _is_operators(path) else self._no_admin()

    def _presented(self, headers: Headers) -> Key | ApiError:
        scheme, _, bearer = headers.get("authorization", "").strip().partition(" ")
        presented = headers.get("x-api-key", "").strip()
        if scheme and scheme.lower() != "bearer" and not presented:
            return _unauthorized("keys are sent as Authorization: Bearer KEY; another scheme was used")
        for text in filter(None, (bearer.strip() if scheme.lower() == "bearer" else "", presented)):
            key = self._keys.find(text) if len(text) <= _MAX_KEY else None
            return key or _unauthorized("the key is not known to this server")
        return _unauthorized("a key is needed: send Authorization: Bearer KEY, or x-api-key: KEY")

    def _no_admin(self) -> ApiError:
        if self._keys.has_admins:
            return ApiError(403, "this needs an admin key", type="permission_error", code="needs_admin_key")
        return ApiError(
            403,
            "this needs an admin key, and the server has none; its operator can give one with --admin-key",
            type="permission_error",
            code="needs_admin_key",
        )


def _is_operators(path: str) -> bool:
    return any(path == prefix or path.startswith(prefix + "/") for prefix in _OPERATOR)


def _unauthorized(message: str) -> ApiError:
    headers = {"WWW-Authenticate": "Bearer"}
    return ApiError(401, message, type="authentication_error", code="invalid_api_key", headers=headers)
