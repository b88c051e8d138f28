"""An engine in a thread: who owns the core, and how the thread ends."""

import contextlib
import gc
import threading
from functools import partial

import pytest

import scripted_core
from heard_events import WAIT_S, Heard
from onnxgen.engine.client import HealthState, in_process
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import EngineDeadError, StateError
from scripted_core import ENDLESS, HANGS, ScriptedCore


def ask(last, *, count=4):
    return EngineRequest([1, last], max_new_tokens=count)


def engine_threads():
    return [t for t in threading.enumerate() if t.name == "onnxgen-engine"]


class Kept:
    """Makes a core, and keeps it."""

    def __init__(self, **options):
        self.core = None
        self._options = options

    def __call__(self):
        return self._open()

    @contextlib.contextmanager
    def _open(self):
        with scripted_core.open_core(**self._options) as self.core:
            yield self.core


def test_one_thread_makes_steps_and_closes_the_core():
    recipe = Kept()
    with in_process(recipe) as client:
        client.start()
        heard = Heard()
        heard.end(client.submit(ask(1), heard))
        assert recipe.core.closed == 0
    assert recipe.core.closed == 1


def test_an_idle_engine_takes_no_steps():
    recipe = Kept()
    with in_process(recipe) as client:
        client.start()
        heard = Heard()
        heard.end(client.submit(ask(1), heard))
        calls = recipe.core.calls
        for _ in range(3):
            client.stats()
        assert recipe.core.calls - calls <= 4


def test_a_step_that_hangs_is_left_to_itself():
    client = in_process(scripted_core.fast)
    client.start()
    heard = Heard()
    number = client.submit(ask(HANGS), heard)
    heard.wait_for_tokens(number, 2)
    client.close(timeout_s=0.01)
    assert type(heard.end(number).error) is StateError
    assert client.health.state is HealthState.CLOSED


def test_a_dropped_client_ends_its_thread():
    before = set(engine_threads())
    client = in_process(scripted_core.fast)
    client.start()
    heard = Heard()
    number = client.submit(ask(1, count=ENDLESS), heard)
    heard.wait_for_tokens(number, 3)
    (thread,) = set(engine_threads()) - before
    del client
    gc.collect()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert "was dropped" in str(heard.end(number).error)


def test_a_listener_may_drop_the_last_reference():
    before = set(engine_threads())
    held = [in_process(scripted_core.fast)]
    held[0].start()
    (thread,) = set(engine_threads()) - before
    held[0].submit_soon(ask(1), lambda events: held.clear())
    thread.join(WAIT_S)
    assert not thread.is_alive()


def test_a_core_that_fails_when_it_is_closed_is_no_error_of_close():
    client = in_process(partial(FailsWhenClosed))
    client.start()
    client.close()
    assert client.health.state is HealthState.CLOSED


def test_an_engine_that_is_restarted_is_starting_until_it_is_there():
    may_load, states = threading.Event(), []

    def slow():
        states.append(client.health.state)
        may_load.wait(WAIT_S)
        return scripted_core.open_core()

    with in_process(slow) as client:
        may_load.set()
        client.start()
        may_load.clear()
        again = threading.Thread(target=client.restart)
        again.start()
        while len(states) < 2:
            threading.Event().wait(0.001)
        heard = Heard()
        early = client.submit_soon(ask(1), heard)
        may_load.set()
        heard.end(early)
        assert heard.tokens(early) == [2, 3, 4, 5]
        again.join(WAIT_S)
        assert states == [HealthState.STARTING] * 2
        assert client.health.state is HealthState.HEALTHY


def test_closing_ends_a_start_that_another_thread_waits_for():
    may_load, loading, ended = threading.Event(), threading.Event(), []

    def slow():
        loading.set()
        may_load.wait(WAIT_S)
        return scripted_core.open_core()

    client = in_process(slow)

    def start():
        try:
            client.start()
        except StateError as error:
            ended.append(str(error))

    waiting = threading.Thread(target=start)
    waiting.start()
    assert loading.wait(WAIT_S)
    client.close()
    waiting.join(WAIT_S)
    may_load.set()
    assert ended == ["the engine was closed"]
    assert client.health.state is HealthState.CLOSED


def test_the_cause_of_a_failure_is_kept():
    with in_process(scripted_core.cannot_be_made) as client:
        with pytest.raises(EngineDeadError) as caught:
            client.start()
        assert type(caught.value.__cause__) is ZeroDivisionError


def test_many_threads_may_ask_at_once():
    with in_process(scripted_core.fast) as client:
        client.start()
        wrong = []

        def work(first):
            heard = Heard()
            for i in range(20):
                number = client.submit(ask(first + i), heard)
                heard.end(number)
                if heard.tokens(number) != [first + i + k for k in range(1, 5)]:
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert wrong == []
        assert client.num_pending == 0


class FailsWhenClosed:
    def __enter__(self):
        return ScriptedCore()

    def __exit__(self, *_):
        raise OSError("no more")


def test_the_end_of_an_engine_can_be_waited_for_and_it_has_no_process():
    client = in_process(scripted_core.fast)
    with pytest.raises(StateError, match="not started"):
        _ = client.ended
    with client:
        client.start()
        assert client.pid is None
        first = client.ended
        assert not first.done()
        client.restart()
        first.result(WAIT_S)
        second = client.ended
        assert not second.done()
    second.result(WAIT_S)
