"""What takes long is done beside the event loop: `read_request` for what a request says, and bounds for other things."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request

LARGE_BYTES = 64 * 1024
"""Bodies up to this are read in the event loop: a millisecond or two."""
MAX_COUNTED_TOKENS = 2**20
"""Far longer texts are not tokenized, where no context bounds them: memory for their tokens is not to be had for nothing."""
MAX_TOLD_INLINE = 500
"""Tokens with log probabilities up to which an answer is written in the event loop: a millisecond or two."""

T = TypeVar("T")


async def read_request(http: Request, read: Callable[[], T]) -> T:
    """What a function finds in a request: in a thread if the request is large, or does not say how large it is.

    Args:
        http: The request.
        read: Reads it; uses nothing that belongs to the event loop.
    """
    told = http.headers.get("content-length", "")
    if told.isdecimal() and int(told) <= LARGE_BYTES:
        return read()
    return await asyncio.to_thread(read)
