"""Large requests are read beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from starlette.requests import Request

from onnxgen.server.generation.large_requests import LARGE_BYTES, read_request


def _read_by(headers: dict[str, str]) -> threading.Thread:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    http = Request({"type": "http", "headers": raw})
    return asyncio.run(read_request(http, threading.current_thread))


def test_small_requests_are_read_at_once() -> None:
    assert _read_by({"content-length": str(LARGE_BYTES)}) is threading.current_thread()


@pytest.mark.parametrize(
    "headers", [{"content-length": str(LARGE_BYTES + 1)}, {}, {"content-length": "many"}]
)
def test_others_are_read_in_a_thread(headers: dict[str, str]) -> None:
    assert _read_by(headers) is not threading.current_thread()


def test_what_reading_raises_is_raised() -> None:
    def read() -> Any:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(read_request(Request({"type": "http", "headers": []}), read))
