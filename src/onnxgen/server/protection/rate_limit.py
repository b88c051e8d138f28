"""`RateLimit`: so many requests a minute for each key."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onnxgen.server.error_answers import route_path, send_error
from onnxgen.server.errors import ApiError
from onnxgen.server.protection.key_check import ANONYMOUS, is_open

_MAX_CALLERS = 10_000


@dataclass(frozen=True, slots=True)
class Taken:
    """What a bucket said.

    Attributes:
        wait_s: Seconds until there is a token; 0: one was taken.
        left: Whole tokens that are left.
        full_in_s: Seconds until it is full again.
    """

    wait_s: float
    left: int
    full_in_s: float


class Buckets:
    """A bucket of tokens for each caller: a minute's worth when full, refilled evenly, one token a request.

    Args:
        per_minute: Tokens a minute.
        now: Seconds from any beginning.
        max_callers: Buckets that are kept; the one unused for longest makes room, and begins full again.
    """

    def __init__(
        self, per_minute: float, *, now: Callable[[], float], max_callers: int = _MAX_CALLERS
    ) -> None:
        self._size, self._per_s = max(1.0, per_minute), per_minute / 60
        self._now, self._max_callers = now, max_callers
        self._by_caller: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> Taken:
        """Take a token, if there is one."""
        now = self._now()
        tokens, at = self._by_caller.pop(caller, (self._size, now))
        tokens = min(self._size, tokens + (now - at) * self._per_s)
        wait_s = 0.0
        if tokens >= 1:
            tokens -= 1
        else:
            wait_s = (1 - tokens) / self._per_s
        self._by_caller[caller] = tokens, now
        if len(self._by_caller) > self._max_callers:
            self._by_caller.popitem(last=False)
        return Taken(wait_s, int(tokens), (self._size - tokens) / self._per_s)


class RateLimit:
    """Refuses requests of callers that ask too often; tells all where they stand, in OpenAI's headers.

    Callers are keys, or addresses where no keys are asked for. Open paths cost nothing.

    Args:
        app: What is inside.
        per_minute: Requests a minute of each caller.
        now: Seconds from any beginning.
        public_metrics: Whether ``/metrics`` is an open path.
    """

    def __init__(
        self, app: ASGIApp, *, per_minute: float, now: Callable[[], float], public_metrics: bool
    ) -> None:
        self._app, self._per_minute = app, per_minute
        self._buckets, self._public_metrics = Buckets(per_minute, now=now), public_metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection, as ASGI says."""
        if scope["type"] != "http" or is_open(route_path(scope), metrics=self._public_metrics):
            await self._app(scope, receive, send)
            return
        taken = self._buckets.take(_caller(scope))
        limits = {
            "x-ratelimit-limit-requests": f"{self._per_minute:g}",
            "x-ratelimit-remaining-requests": str(taken.left),
            "x-ratelimit-reset-requests": f"{taken.full_in_s:.3f}s",
        }
        if taken.wait_s > 0:
            await send_error(self._refusal(taken, limits), scope, receive, send)
            return

        async def send_with_limits(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(limits)
            await send(message)

        await self._app(scope, receive, send_with_limits)

    def _refusal(self, taken: Taken, limits: dict[str, str]) -> ApiError:
        return ApiError(
            429,
            f"{self._per_minute:g} requests a minute are allowed; the next in {taken.wait_s:.1f} s",
            type="rate_limit_error",
            code="rate_limit_exceeded",
            headers={**limits, "Retry-After": str(math.ceil(taken.wait_s))},
        )


def _caller(scope: Scope) -> str:
    tenant = scope["state"].get("tenant", ANONYMOUS)
    client = scope.get("client")
    return f"@{client[0]}" if tenant == ANONYMOUS and client else tenant
