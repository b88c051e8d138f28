"""`RequestLog`: one line for each request that ended; without prompts, answers and keys."""

from __future__ import annotations

import logging

from onnxgen.server.observe.ended import EndedRequest
from onnxgen.server.observe.listener import OpenRequest

_log = logging.getLogger("onnxgen.server.requests")


class RequestLog:
    """Writes one line for each request that ended."""

    def began(self, observed: OpenRequest) -> None:
        """Nothing is written at the beginning."""

    def ended(self, observed: OpenRequest, request: EndedRequest) -> None:
        """Write a line; what failed on the server's side is a warning."""
        del observed
        level = logging.WARNING if request.outcome == "error" else logging.INFO
        if _log.isEnabledFor(level):
            fields = request_fields(request)
            _log.log(level, "%s", request_line(request), extra={"fields": fields})

    def close(self) -> None:
        """Nothing is kept."""


def request_line(request: EndedRequest) -> str:
    """What became of a request, in one line for people."""
    parts = [
        f"{request.endpoint} {request.model}: {request.status} {request.outcome} in {request.total_s:.3f} s"
    ]
    if request.prompt_tokens is not None:
        cached = f" ({request.cached_tokens} cached)" if request.cached_tokens else ""
        parts.append(f"prompt {request.prompt_tokens}{cached}")
    if request.completion_tokens:
        parts.append(f"answer {request.completion_tokens}")
    if request.ttft_s is not None:
        parts.append(f"first token {1000 * request.ttft_s:.0f} ms")
    if request.queued_s is not None:
        parts.append(f"queued {1000 * request.queued_s:.0f} ms")
    if request.tokens_s is not None:
        parts.append(f"{request.tokens_s:.1f} tok/s")
    if request.finish_reasons:
        parts.append("/".join(dict.fromkeys(request.finish_reasons)))
    if request.error is not None:
        parts.append(request.error)
    return ", ".join(parts)


def request_fields(request: EndedRequest) -> dict[str, object]:
    """The same for machines; what is not known is not there."""
    fields: dict[str, object | None] = {
        "request_id": request.request_id,
        "endpoint": request.endpoint,
        "model": request.model,
        "stream": request.stream,
        "tenant": request.tenant or None,
        "outcome": request.outcome,
        "status": request.status,
        "total_s": round(request.total_s, 6),
        "queued_s": _rounded(request.queued_s),
        "ttft_s": _rounded(request.ttft_s),
        "prompt_tokens": request.prompt_tokens,
        "cached_tokens": None if request.prompt_tokens is None else request.cached_tokens,
        "completion_tokens": request.completion_tokens,
        "tok_s": _rounded(request.tokens_s),
        "finish_reasons": list(request.finish_reasons) or None,
        "error": request.error,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
