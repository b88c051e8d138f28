"""Requests whose grammar takes long to be made ready: the others go on meanwhile."""

import contextlib
import threading
import time

import pytest

import scripted_core
from heard_events import WAIT_S, Heard
from onnxgen.engine.client import in_process, in_subprocess
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import GrammarError
from scripted_core import ENDLESS


class Kept:
    """Makes a core, and keeps it."""

    core = None

    @contextlib.contextmanager
    def __call__(self):
        with scripted_core.open_core() as self.core:
            yield self.core


def ask(last, pattern=None, *, count=4, n=1):
    grammar = None if pattern is None else Grammar.regex(pattern)
    return EngineRequest([1, last], max_new_tokens=count, grammar=grammar, n=n)


@pytest.fixture
def gate(monkeypatch):
    event = threading.Event()
    monkeypatch.setitem(scripted_core.GATES, "slow", event)
    yield event
    event.set()


def test_other_requests_go_on_while_a_grammar_is_made_ready(gate):
    with in_process(scripted_core.fast) as client:
        client.start()
        heard = Heard()
        slow = client.submit_soon(ask(50, "slow"), heard)
        quick = client.submit(ask(1, "quick"), heard)
        plain = client.submit(ask(7), heard)
        for number in (quick, plain):
            heard.end(number)
        assert heard.of(slow) == []
        gate.set()
        heard.end(slow)
        assert heard.tokens(slow) == [51, 52, 53, 54]


def test_a_grammar_is_made_ready_once_and_apart(gate):
    recipe = Kept()
    with in_process(recipe) as client:
        client.start()
        heard = Heard()
        for _ in range(3):
            heard.end(client.submit(ask(1, "quick"), heard))
        assert recipe.core.prepared == [("quick", True)]


@pytest.mark.parametrize("make", [in_process, in_subprocess])
def test_a_refusal_is_told_as_any_other(make):
    with make(scripted_core.fast) as client:
        client.start()
        heard = Heard()
        with pytest.raises(GrammarError, match="not known"):
            client.submit(ask(1, "unknown"), heard)
        number = client.submit_soon(ask(1, "unknown", n=2), heard)
        ends = [heard.end(number, i) for i in range(2)]
        assert [type(end.error) for end in ends] == [GrammarError] * 2
        heard.end(client.submit(ask(1, "quick"), heard))


def test_a_request_that_is_not_wanted_any_more_ends_at_once(gate):
    with in_process(scripted_core.fast) as client:
        client.start()
        heard = Heard()
        number = client.submit_soon(ask(1, "slow", n=2), heard)
        client.stats()
        client.cancel(number, index=1, reason="stop")
        client.cancel(number)
        assert [heard.end(number, i).finish_reason for i in range(2)] == ["cancelled", "stop"]
        assert heard.end(number).usage.prompt_tokens == 2
        gate.set()
        heard.end(client.submit(ask(1, "slow"), heard))
        assert len(heard.of(number)) == 1


def test_a_sample_that_is_not_wanted_any_more_ends_when_the_others_begin(gate):
    with in_process(scripted_core.fast) as client:
        client.start()
        heard = Heard()
        number = client.submit_soon(ask(1, "slow", n=2), heard)
        client.stats()
        client.cancel(number, index=0)
        gate.set()
        assert heard.end(number, 0).finish_reason == "cancelled"
        assert heard.end(number, 1).finish_reason == "length"


def test_an_engine_that_is_closed_waits_for_no_grammar(gate):
    client = in_process(scripted_core.fast)
    client.start()
    heard = Heard()
    number = client.submit_soon(ask(1, "slow"), heard)
    client.submit_soon(ask(1, count=ENDLESS), heard)
    client.stats()
    before = time.monotonic()
    assert client.close(timeout_s=WAIT_S)
    assert time.monotonic() - before < WAIT_S / 2
    assert heard.end(number).finish_reason == "error"
