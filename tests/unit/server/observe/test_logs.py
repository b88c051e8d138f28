"""Logs of a server: one line a record whatever is logged, in two forms, with the request's id."""

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxgen.server.observe.context import CURRENT, RequestContext
from onnxgen.server.observe.ended import EndedRequest
from onnxgen.server.observe.logs import JsonLines, TextLines, configure_logs
from onnxgen.server.observe.observer import Observer
from onnxgen.server.observe.request_log import RequestLog, request_fields, request_line


class _Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def restored():
    logger, root = logging.getLogger("onnxgen"), logging.getLogger()
    level, handlers = logger.level, list(root.handlers)
    yield
    logger.setLevel(level)
    root.handlers[:] = handlers


def _record(text, *args, **extra):
    record = logging.LogRecord("onnxgen.server.requests", logging.INFO, "", 0, text, args, None)
    record.__dict__ |= extra
    return record


@pytest.mark.parametrize(
    ("stream", "form", "is_json"),
    [
        (io.StringIO, "auto", True),
        (_Terminal, "auto", False),
        (_Terminal, "json", True),
        (io.StringIO, "text", False),
    ],
)
def test_the_form_follows_the_stream_unless_it_is_said(restored, stream, form, is_json):
    out = stream()
    configure_logs(out, form=form)
    logging.getLogger("onnxgen.server.x").info("hello %s", "there")
    logging.getLogger("somebody.else").info("not shown")
    (line,) = out.getvalue().splitlines()
    assert line.startswith("{") == is_json
    assert "hello there" in line


def test_configuring_again_replaces_what_was_before(restored):
    first, second = io.StringIO(), io.StringIO()
    configure_logs(first)
    configure_logs(second, level="DEBUG")
    logging.getLogger("onnxgen.server.x").debug("once")
    assert not first.getvalue()
    assert len(second.getvalue().splitlines()) == 1


def test_records_have_the_id_of_the_request_that_code_works_for(restored):
    out = io.StringIO()
    configure_logs(out)
    token = CURRENT.set(RequestContext("req-7"))
    try:
        logging.getLogger("onnxgen.engine").warning("inside")
    finally:
        CURRENT.reset(token)
    logging.getLogger("onnxgen.engine").warning("outside")
    inside, outside = map(json.loads, out.getvalue().splitlines())
    assert inside["request_id"] == "req-7"
    assert inside["level"] == "warning"
    assert inside["time"].endswith("Z")
    assert "request_id" not in outside


@given(st.text())
def test_no_text_makes_another_line(text):
    for formatter in (TextLines(), JsonLines()):
        line = formatter.format(_record("%s", text))
        assert len(line.splitlines()) == 1
        assert "\x1b" not in line
    assert json.loads(JsonLines().format(_record("%s", text)))["logger"] == "onnxgen.server.requests"


def test_long_texts_are_cut():
    assert len(TextLines().format(_record("%s", "x" * 100_000))) < 9000


def test_a_traceback_stands_below_the_line():
    try:
        raise KeyError("lost")
    except KeyError as error:
        record = _record("it failed")
        record.exc_info = (type(error), error, error.__traceback__)
    assert TextLines().format(record).splitlines()[-1] == "KeyError: 'lost'"
    assert json.loads(JsonLines().format(record))["exception"].endswith("KeyError: 'lost'")


def _ended(**changed):
    plain = {
        "request_id": "req-1",
        "endpoint": "chat.completions",
        "model": "m",
        "stream": True,
        "tenant": "",
        "outcome": "ok",
        "status": 200,
        "began_s": 10.0,
        "queued_s": None,
        "first_s": None,
        "ended_s": 12.0,
        "prompt_tokens": None,
        "cached_tokens": 0,
        "completion_tokens": 0,
        "finish_reasons": (),
        "error": None,
    }
    return EndedRequest(**(plain | changed))


def test_a_line_says_what_is_known_and_nothing_else():
    assert request_line(_ended()) == "chat.completions m: 200 ok in 2.000 s"
    whole = _ended(
        queued_s=0.25,
        first_s=10.5,
        prompt_tokens=30,
        cached_tokens=16,
        completion_tokens=31,
        finish_reasons=("stop", "length", "stop"),
    )
    assert request_line(whole) == (
        "chat.completions m: 200 ok in 2.000 s, prompt 30 (16 cached), answer 31, first token 500 ms, queued 250 ms, "
        "20.0 tok/s, stop/length"
    )
    assert request_fields(_ended()).keys() == {
        *("request_id", "endpoint", "model", "stream", "outcome", "status", "total_s", "completion_tokens"),
    }
    assert request_fields(whole)["tok_s"] == 20.0


@pytest.mark.parametrize(
    ("outcome", "level"), [("ok", "info"), ("cancelled", "info"), ("rejected", "info"), ("error", "warning")]
)
def test_every_request_has_a_line_with_its_id(restored, outcome, level):
    out = io.StringIO()
    configure_logs(out)
    observer = Observer(listeners=[RequestLog()])
    request = observer.begin(
        request_id="req-9", endpoint="completions", model="m", stream=False, tenant="alice"
    )
    request.end(outcome, status=200, error=ValueError("what the prompt said") if outcome == "error" else None)
    (line,) = map(json.loads, out.getvalue().splitlines())
    assert (line["request_id"], line["outcome"], line["level"], line["tenant"]) == (
        "req-9",
        outcome,
        level,
        "alice",
    )
    assert "what the prompt said" not in out.getvalue()
