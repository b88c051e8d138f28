"""`configure_logs`: how a server's log looks: text for people on a terminal, a JSON object a line for machines."""

from __future__ import annotations

import datetime
import json
import logging
import traceback
from typing import Literal, TextIO

from onnxgen.server.observe.context import CURRENT

_MOST_CHARACTERS = 8192


def configure_logs(
    stream: TextIO, *, form: Literal["auto", "text", "json"] = "auto", level: str = "INFO"
) -> logging.Handler:
    """Write what this process logs to a stream. Calling it again replaces what it did before.

    Args:
        stream: Usually standard error.
        form: ``auto`` is text on a terminal and JSON otherwise.
        level: The name of a level for what the project logs; of others, warnings are shown.

    Returns:
        The handler, which can be removed from the root logger.

    Raises:
        ValueError: There is no such level.
    """
    handler = logging.StreamHandler(stream)
    handler.set_name("onnxgen.server")
    handler.setFormatter(TextLines() if is_text(stream, form) else JsonLines())
    handler.addFilter(_add_request)
    root = logging.getLogger()
    for before in [h for h in root.handlers if h.name == handler.name]:
        root.removeHandler(before)
    root.addHandler(handler)
    logging.getLogger("onnxgen").setLevel(level)
    return handler


def is_text(stream: TextIO, form: Literal["auto", "text", "json"]) -> bool:
    """Whether a log of this form is text on a stream."""
    return form == "text" or (form == "auto" and stream.isatty())


def _add_request(record: logging.LogRecord) -> bool:
    """Let a record know which request the code worked for."""
    if not hasattr(record, "request_id"):
        current = CURRENT.get()
        record.request_id = None if current is None else current.request_id
    return True


class TextLines(logging.Formatter):
    """``2026-11-30 12:00:00.123 INFO  requests: ... [request id]``, with the last part of the logger's name."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and a traceback below it where there is one."""
        when = datetime.datetime.fromtimestamp(record.created).isoformat(" ", "milliseconds")
        line = f"{when} {record.levelname:<7} {record.name.rpartition('.')[2]}: {_text(record)}"
        request_id = _request_id(record)
        if request_id is not None:
            line += f" [{request_id}]"
        found = _exception(record)
        return line if found is None else f"{line}\n{found}"


class JsonLines(logging.Formatter):
    """A JSON object a line: ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, and what else is known."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        when = datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(
            timespec="milliseconds"
        )
        line: dict[str, object] = {
            "time": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _text(record),
        }
        request_id = _request_id(record)
        if request_id is not None:
            line["request_id"] = request_id
        line |= getattr(record, "fields", {})
        found = _exception(record)
        if found is not None:
            line["exception"] = found
        return json.dumps(line, ensure_ascii=False, default=str)


def _text(record: logging.LogRecord) -> str:
    """The message on one line: no line of a log can be made up by what is logged."""
    text = record.getMessage()
    if len(text) > _MOST_CHARACTERS:
        text = text[:_MOST_CHARACTERS] + f"... ({len(text)} characters)"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _request_id(record: logging.LogRecord) -> str | None:
    fields = getattr(record, "fields", {})
    return fields.get("request_id") or getattr(record, "request_id", None)


def _exception(record: logging.LogRecord) -> str | None:
    if not record.exc_info or record.exc_info[0] is None:
        return record.exc_text  # of a record that comes from another process
    return "".join(traceback.format_exception(*record.exc_info)).rstrip()
