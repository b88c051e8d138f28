"""`ApiError`: what a client is told when its request fails, and which error of ours becomes which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxgen.errors import (
    AdmissionError,
    CapabilityError,
    ChatTemplateError,
    ContextLengthError,
    DownloadError,
    EngineDeadError,
    ModelNotFoundError,
    NeverFitsError,
    OnnxgenError,
    OptionError,
    QueueFullError,
    StateError,
    TokenIdError,
)

MAX_MESSAGE = 1000
"""Characters of an error's text that a client is shown."""


class ApiError(Exception):
    """A request cannot be answered.

    Args:
        status: The HTTP status.
        message: What was asked, what was found, what to do.
        type: What kind of error it is, in OpenAI's words.
        code: A word that programs tell it by.
        param: The field of the request that is at fault.
        headers: Headers of the answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.type, self.code, self.param = status, type, code, param
        self.headers: Mapping[str, str] = headers or {}

    @property
    def message(self) -> str:
        """The text, of bounded length."""
        text = str(self)
        return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"

    @property
    def body(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


def unavailable(message: str, *, code: str | None = None, retry_after_s: int = 1) -> ApiError:
    """The server cannot answer now, and may soon."""
    return ApiError(
        503, message, type="service_unavailable", code=code, headers={"Retry-After": str(retry_after_s)}
    )


def ending() -> ApiError:
    """The server ends, and takes nothing new."""
    return unavailable("this server is about to end; ask again", code="shutting_down")


def as_api_error(error: BaseException) -> ApiError:
    """What a client is told of an error; nothing of the server's inside."""
    match error:
        case ApiError():
            return error
        case ContextLengthError():
            return ApiError(400, str(error), code="context_length_exceeded")
        case QueueFullError():
            headers = {"Retry-After": "1"}
            return ApiError(429, str(error), type="rate_limit_error", code="queue_full", headers=headers)
        case NeverFitsError() | AdmissionError():
            return ApiError(400, str(error), code="never_fits")
        case OptionError() | ChatTemplateError() | TokenIdError() | CapabilityError():
            return ApiError(400, str(error))
        case EngineDeadError():
            return unavailable(
                "the model's engine failed and is being restarted; ask again", code="engine_failed"
            )
        case StateError():
            return unavailable(
                "the model was unloaded or restarted, or the server is about to end; ask again"
            )
        case ModelNotFoundError() | DownloadError():
            return unavailable(
                "files of the model are not there; the server's log has more",
                code="model_unavailable",
                retry_after_s=30,
            )
        case OnnxgenError():
            return ApiError(500, f"the model failed: {type(error).__name__}", type="server_error")
        case _:
            return ApiError(500, "internal error; the server's log has more", type="server_error")
