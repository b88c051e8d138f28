"""What stands between a port and the routes: limits, keys, origins and error answers.

Knows HTTP and the settings; knows nothing of models.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from onnxgen.server.observe.middleware import ObservedApp
from onnxgen.server.protection.bodies import BodyLimits
from onnxgen.server.protection.boundary import Boundary
from onnxgen.server.protection.hosts import HostCheck, is_loopback
from onnxgen.server.protection.key_check import KeyCheck
from onnxgen.server.protection.keys import KeyRing
from onnxgen.server.protection.rate_limit import RateLimit
from onnxgen.server.services import Services

_METHODS = ("GET", "HEAD", "POST", "PATCH", "DELETE")
_SHOWN_TO_PAGES = (
    "X-Request-Id",
    "X-Session-Id",
    "Retry-After",
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
)


def protect(app: ASGIApp, services: Services, *, now: Callable[[], float] = time.monotonic) -> ASGIApp:
    """An application behind everything that protects it.

    A request passes, from the outermost on: what a trusted proxy says of who asks; its id, and the answer to what fails
    beyond all handlers; origins (CORS); the name that it is addressed to; its key; the key's rate; its body.

    Args:
        app: The application.
        services: How it serves.
        now: Seconds from any beginning.

    Raises:
        ConfigError: A key is malformed, or the file of keys cannot be read.
    """
    settings = services.settings
    keys = KeyRing(settings.api_key, settings.admin_key, file=settings.api_key_file, now=now)
    at_home = is_loopback(settings.host)
    app = BodyLimits(app, max_bytes=int(settings.max_body_mb * 2**20), timeout_s=settings.body_timeout_s)
    if settings.rate_limit is not None:
        app = RateLimit(app, per_minute=settings.rate_limit, now=now, public_metrics=settings.public_metrics)
    app = KeyCheck(app, keys=keys, public_metrics=settings.public_metrics, trust_all=at_home)
    if settings.allowed_host or (at_home and not keys.is_asked_for):
        app = HostCheck(app, names=settings.allowed_host, origins=settings.allowed_origin)
    app = CORSMiddleware(
        app,
        allow_origins=settings.allowed_origin,
        allow_credentials=settings.allow_credentials,
        allow_methods=_METHODS,
        allow_headers=("*",),
        expose_headers=_SHOWN_TO_PAGES,
    )
    app = Boundary(ObservedApp(app, metrics=services.observer.metrics), root_path=settings.root_path)
    if not settings.trusted_proxy:
        return app
    proxied: Any = ProxyHeadersMiddleware(cast(Any, app), trusted_hosts=list(settings.trusted_proxy))
    return proxied
