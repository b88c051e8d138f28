"""`HostCheck`: pages of other sites cannot use a server that trusts everybody on its machine.

A server without keys that listens on a loopback address is open to every program of the machine, and a browser is one.
Two ways lead from a foreign page to it: a name of the page's own that suddenly means 127.0.0.1 (DNS rebinding), which
the header Host shows, and a request without reading the answer, which the header Origin shows.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from onnxgen.server.error_answers import send_error
from onnxgen.server.errors import ApiError
from onnxgen.server.invalid_requests import short

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_LOCAL_NAMES = ("localhost", "*.localhost")


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach an address or name."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(value: str) -> str | None:
    """The name or address in a header ``Host``, without the port; None: it is malformed."""
    try:
        parts = urlsplit(f"//{value}")
        _ = parts.port
    except ValueError:
        return None
    if parts.netloc != value or "@" in value or parts.path or not parts.hostname:
        return None
    return parts.hostname.rstrip(".")


class HostCheck:
    """Refuses requests that are addressed to foreign names, and writing ones that foreign pages send.

    Args:
        app: What is inside.
        names: Further names, ``*.example.org`` for all below one, ``*`` for all. This machine's own and all addresses
            are always allowed: no foreign page can make them its own.
        origins: Origins whose pages may ask; ``*`` for all.
    """

    def __init__(self, app: ASGIApp, *, names: Collection[str] = (), origins: Collection[str] = ()) -> None:
        self._app = app
        allowed = (*_LOCAL_NAMES, *(name.lower() for name in names))
        self._any = "*" in allowed
        self._names = frozenset(name for name in allowed if not name.startswith("*"))
        self._suffixes = tuple(name[1:] for name in allowed if name.startswith("*."))
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection, as ASGI says."""
        error = self._refusal(scope) if scope["type"] == "http" else None
        if error is None:
            await self._app(scope, receive, send)
        else:
            await send_error(error, scope, receive, send)

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) > 1 or (not hosts and scope.get("http_version") != "1.0"):
            return ApiError(400, "a request needs the header Host exactly once")
        if hosts and not self._is_allowed(host_of(hosts[0])):
            return ApiError(
                403,
                f"this server does not answer to the name {short(hosts[0])!r}; "
                "its operator can allow it with --allowed-host",
                code="host_not_allowed",
            )
        origin = headers.get("origin")
        if scope["method"] in _READING or origin is None or self._may_write(origin, hosts):
            return None
        return ApiError(
            403,
            f"pages of {short(origin)!r} may not use this server; its operator can allow them with --allowed-origin",
            code="origin_not_allowed",
        )

    def _is_allowed(self, host: str | None) -> bool:
        if host is None:
            return False
        if self._any or host in self._names:
            return True
        return host.endswith(self._suffixes) or _is_address(host)

    def _may_write(self, origin: str, hosts: list[str]) -> bool:
        if "*" in self._origins or origin in self._origins:
            return True
        # Only browsers' pages are foreign; programs that show pages of their own have schemes of their own.
        scheme, _, rest = origin.partition("://")
        return rest in hosts if scheme in ("http", "https") else origin != "null"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
