"""What an engine's process logs is logged in its parent."""

import logging
import sys

import pytest

import scripted_core
from heard_events import Heard
from onnxgen.engine.client import in_process, in_subprocess
from onnxgen.engine.client.log_relay import LogRelay, write_log
from onnxgen.engine.client.messages import Logged
from onnxgen.engine.request import EngineRequest


@pytest.fixture(params=[in_process, in_subprocess])
def make(request):
    if request.param is in_subprocess and sys.platform == "win32":
        pytest.skip("signals and process groups")
    return request.param


def test_a_warning_of_the_engine_names_its_request_in_this_process(make, caplog):
    with make(scripted_core.fast) as client, caplog.at_level(logging.WARNING, logger="onnxgen"):
        client.start()
        client.submit(EngineRequest([1, 5], max_new_tokens=2, name="req-a"), Heard())
    found = [r for r in caplog.records if r.name == "onnxgen.scripted"]
    assert [(r.levelno, r.getMessage()) for r in found] == [(logging.WARNING, "took req-a")]


def test_a_view_comes_from_wherever_the_engine_is(make):
    with make(scripted_core.fast) as client:
        client.start()
        assert client.view(steps=3, prefixes=2, timeout_s=60) == ("view", 3, 2)


def test_a_traceback_crosses_and_is_written_below_the_message(caplog):
    logger, heard = logging.getLogger("onnxgen.relayed"), []
    relay = LogRelay(heard.append)
    logger.addHandler(relay)
    try:
        with caplog.at_level(logging.CRITICAL, logger="onnxgen.relayed"):
            try:
                raise ZeroDivisionError("in the other process")
            except ZeroDivisionError:
                logger.critical("it failed: %d%%", 7, exc_info=True)
    finally:
        logger.removeHandler(relay)
    (logged,) = heard
    assert logged.text == "it failed: 7%"
    assert logged.trace is not None
    assert logged.trace.endswith("ZeroDivisionError: in the other process")
    caplog.clear()
    write_log(logged)
    (record,) = caplog.records
    assert record.getMessage() == "it failed: 7%"
    assert record.created == logged.created_s
    assert logging.Formatter("%(message)s").format(record) == f"it failed: 7%\n{logged.trace}"


def test_what_is_below_the_level_here_is_not_written(caplog):
    with caplog.at_level(logging.ERROR, logger="onnxgen"):
        write_log(Logged("onnxgen.other", logging.WARNING, "a % of nothing", None, 1.0))
    assert not caplog.records
