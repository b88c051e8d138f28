"""What clients promise, whether the engine runs in a thread or in a process of its own."""

from functools import partial

import pytest

import scripted_core
from heard_events import WAIT_S, Heard
from onnxgen.engine.client import HealthState, in_process, in_subprocess
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import (
    ConfigError,
    ContextLengthError,
    EngineDeadError,
    ModelFileError,
    OptionError,
    StateError,
)
from scripted_core import CRASHES, ENDLESS, REFUSED

KINDS = {"thread": in_process, "process": in_subprocess}


@pytest.fixture(scope="module", params=KINDS)
def make(request):
    return KINDS[request.param]


@pytest.fixture(scope="module")
def running(make):
    """A client that tests share: they leave it as it was."""
    with make(scripted_core.fast) as client:
        client.start()
        yield client


def ask(last, *, count=4, **options):
    return EngineRequest([1, last], max_new_tokens=count, **options)


def test_a_request_is_answered(running):
    heard = Heard()
    number = running.submit(ask(10), heard)
    end = heard.end(number)
    assert heard.tokens(number) == [11, 12, 13, 14]
    assert (end.finish_reason, end.error) == ("length", None)
    assert (end.usage.prompt_tokens, end.usage.completion_tokens) == (2, 4)
    assert running.num_pending == 0
    assert running.health.state is HealthState.HEALTHY


def test_samples_of_a_request_come_under_its_number(running):
    heard = Heard()
    number = running.submit_soon(ask(10, n=3, count=2), heard)
    for index in range(3):
        heard.end(number, index)
        assert heard.tokens(number, index) == [11 + 100 * index, 12 + 100 * index]


def test_a_listener_is_called_once_a_step_with_all_its_requests(running):
    heard, other = Heard(), Heard()
    numbers = [running.submit(ask(10 * i, count=ENDLESS), heard) for i in range(8)]
    apart = running.submit(ask(7, count=ENDLESS), other)
    for number in numbers:
        heard.wait_for_tokens(number, 50)
    for number in [*numbers, apart]:
        running.cancel(number)
    for number in numbers:
        heard.end(number)
    other.end(apart)
    assert {e.request_id for e in heard.events} == set(numbers)
    assert {e.request_id for e in other.events} == {apart}
    for batch in heard.batches:
        produced = [e.request_id for e in batch if e.token_id is not None]
        assert len(produced) == len(set(produced))
    assert any(len(batch) == 8 for batch in heard.batches)


def test_a_refusal_is_raised_in_the_caller_with_its_class_and_message(running):
    heard = Heard()
    with pytest.raises(ContextLengthError, match=r"^2 prompt tokens do not fit the context of 0 tokens$"):
        running.submit(ask(REFUSED), heard)
    assert running.num_pending == 0
    assert heard.events == []


def test_a_refusal_that_nobody_waits_for_is_an_event_for_every_sample(running):
    heard = Heard()
    number = running.submit_soon(ask(REFUSED, n=2), heard)
    for index in range(2):
        end = heard.end(number, index)
        assert end.finish_reason == "error"
        assert type(end.error) is ContextLengthError
    assert running.num_pending == 0


def test_cancelling_ends_a_request_that_would_never_end(running):
    heard = Heard()
    number = running.submit(ask(10, count=ENDLESS), heard)
    heard.wait_for_tokens(number, 3)
    running.cancel(number)
    assert heard.end(number).finish_reason == "cancelled"
    running.cancel(number)
    running.cancel(10**6)


def test_a_request_can_be_cancelled_before_the_engine_has_seen_it(running):
    heard = Heard()
    number = running.submit_soon(ask(10, count=ENDLESS), heard)
    running.cancel(number)
    assert heard.end(number).finish_reason == "cancelled"


def test_one_sample_can_be_cancelled_with_a_reason(running):
    heard = Heard()
    number = running.submit(ask(10, count=ENDLESS, n=2), heard)
    running.cancel(number, index=1, reason="stop")
    assert heard.end(number, 1).finish_reason == "stop"
    assert running.num_pending == 1
    before = len(heard.tokens(number, 0))
    heard.wait_for_tokens(number, before + 3)
    running.cancel(number)
    heard.end(number, 0)


def test_questions_are_answered(running):
    assert running.stats(timeout_s=WAIT_S)["steps"] >= 0
    assert running.reconfigure("new") == ("reconfigured", "new")
    with pytest.raises(OptionError, match="asked for no configuration"):
        running.reconfigure(None)


def test_what_raises_in_a_listener_disturbs_nobody(running, caplog):
    def broken(events):
        raise RuntimeError("a mistake in a listener")

    heard = Heard()
    lost = running.submit(ask(10), broken)
    number = running.submit(ask(10, count=20), heard)
    assert heard.end(number).finish_reason == "length"
    assert "a mistake in a listener" in caplog.text
    assert lost != number


def test_starting_twice_is_refused(running):
    with pytest.raises(StateError, match="runs already"):
        running.start()


def test_a_core_that_fails_ends_everything_pending_and_a_new_one_serves_again(make):
    with make(scripted_core.fast) as client:
        client.start()
        first, heard = Heard(), Heard()
        done = client.submit(ask(3), first)
        first.end(done)
        innocent = client.submit(ask(10, count=ENDLESS, n=2), heard)
        heard.wait_for_tokens(innocent, 1)
        guilty = client.submit(ask(CRASHES), heard)
        for number, index in [(innocent, 0), (innocent, 1), (guilty, 0)]:
            end = heard.end(number, index)
            assert end.finish_reason == "error"
            assert type(end.error) is EngineDeadError
            assert "ZeroDivisionError: the core fails because the script says so" in str(end.error)
        assert client.health.state is HealthState.FAILED
        assert "the script says so" in client.health.reason
        assert client.num_pending == 0
        for call in (
            lambda: client.submit(ask(1), heard),
            lambda: client.submit_soon(ask(1), heard),
            client.stats,
            lambda: client.reconfigure("x"),
        ):
            with pytest.raises(EngineDeadError, match=r"the script says so.*restart"):
                call()

        client.restart()
        assert client.health.state is HealthState.HEALTHY
        client.cancel(innocent)
        number = client.submit(ask(20), heard)
        assert number not in {done, innocent, guilty}
        heard.end(number)
        assert heard.tokens(number) == [21, 22, 23, 24]
        client.restart()
        assert client.stats()["steps"] == 0


def test_closing_ends_what_is_pending_and_everything_after_is_refused(make):
    client = make(scripted_core.fast)
    assert client.health.state is HealthState.CLOSED
    with pytest.raises(StateError, match="was not started"):
        client.submit(ask(1), Heard())
    client.start()
    heard = Heard()
    number = client.submit(ask(10, count=ENDLESS), heard)
    client.close()
    end = heard.end(number)
    assert end.finish_reason == "error"
    assert type(end.error) is StateError
    assert client.health.state is HealthState.CLOSED
    client.close()
    client.cancel(number)
    for call in (lambda: client.submit(ask(1), heard), client.stats, client.start, client.restart):
        with pytest.raises(StateError, match="was closed"):
            call()


@pytest.mark.parametrize(
    ("recipe", "kind", "message"),
    [
        (scripted_core.is_no_model, ModelFileError, r"^model.onnx is empty \(0 bytes\)$"),
        (scripted_core.cannot_be_made, EngineDeadError, "could not be made: ZeroDivisionError: no core"),
    ],
)
def test_a_core_that_cannot_be_made_is_told_by_start(make, recipe, kind, message):
    with make(recipe) as client:
        with pytest.raises(kind, match=message):
            client.start()
        assert client.health.state is HealthState.FAILED
        with pytest.raises(EngineDeadError):
            client.submit(ask(1), Heard())


def test_progress_of_loading_is_shown(make):
    shown = []

    class Shown:
        def start(self, description, *, total, unit="bytes"):
            shown.append((description, total, unit))
            return self

        def advance(self, amount):
            shown.append(amount)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            shown.append("end")

    with make(scripted_core.shows_progress) as client:
        client.start(progress=Shown())
    assert shown == [("compiling", 3, "kernels"), 1, 2, "end"]


def test_an_interrupt_while_it_loads_leaves_nothing(make, monkeypatch):
    from concurrent.futures import Future

    def interrupted(self, timeout=None):
        raise KeyboardInterrupt

    client = make(partial(scripted_core.open_core))
    with monkeypatch.context() as patched:
        patched.setattr(Future, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.start()
    assert client.health.state is HealthState.CLOSED
    client.start()
    heard = Heard()
    heard.end(client.submit(ask(1), heard))
    client.close()


def test_what_cannot_be_sent_to_a_process_is_refused_by_name():
    with pytest.raises(ConfigError, match="cannot be sent to a process of its own"):
        in_subprocess(lambda: scripted_core.open_core()).start()
    with in_subprocess(scripted_core.fast) as client:
        client.start()
        heard = Heard()
        with pytest.raises(OptionError, match="cannot be sent to the engine's process"):
            client.submit(ask(1, processors=[lambda *_: None]), heard)
        assert client.num_pending == 0
        heard.end(client.submit(ask(1), heard))
