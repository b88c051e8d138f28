"""Events of a stream as the text that goes out, each with its name in front (server-sent events)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic_core import to_json

Event = dict[str, Any]
"""An event; its ``type`` is its name."""


def event_text(events: Iterable[Event]) -> bytes:
    """Events as they go out in one write.

    Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
    """
    return b"".join(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), to_json(event)) for event in events)
