"""Whatever happens in whatever order: every sample that was accepted ends once, and nothing comes after its end."""

import contextlib
import itertools
import random
import threading

import pytest

from heard_events import WAIT_S, Heard
from onnxgen.engine.client import HealthState
from onnxgen.engine.client.life import EngineLife
from onnxgen.engine.client.messages import Answer, Ended, Progressed, Ready, Stepped
from onnxgen.errors import ContextLengthError, EngineDeadError, StateError
from onnxgen.foundations.progress import SILENT


@pytest.fixture
def life():
    life = EngineLife(itertools.count(), progress=SILENT)
    life.receive(Ready())
    return life


def token(number, index, value):
    return (number, index, value, False, None, None, None)


def last(number, index, reason="length"):
    return (number, index, None, False, reason, None, None)


def test_an_engine_is_starting_until_it_says_that_it_is_ready():
    life = EngineLife(itertools.count(), progress=SILENT)
    assert life.health.state is HealthState.STARTING
    assert not life.was_ready
    life.receive(Ready())
    assert life.health.state is HealthState.HEALTHY
    assert life.was_ready


def test_only_the_first_end_counts(life):
    life.end(EngineDeadError("it failed"))
    life.receive(Ended(None))
    life.end(StateError("closed"), closed=True)
    life.receive(Ready())
    assert life.health.state is HealthState.FAILED
    assert life.health.reason == "it failed"


def test_a_request_that_is_waited_for_ends_where_it_is_waited_for(life):
    heard = Heard()
    _, waited = life.expect_answer(num_samples=2, listener=heard)
    told = life.expect_events(2, heard)
    life.end(EngineDeadError("it failed"))
    assert isinstance(waited.exception(), EngineDeadError)
    assert [(e.request_id, e.index, e.finish_reason) for e in heard.events] == [
        (told, 0, "error"),
        (told, 1, "error"),
    ]


def test_a_refused_request_is_forgotten(life):
    number, waited = life.expect_answer(num_samples=1, listener=Heard())
    life.receive(Answer(number, error=ContextLengthError("too long")))
    assert isinstance(waited.exception(), ContextLengthError)
    assert life.num_pending == 0


def test_samples_that_had_ended_do_not_end_again(life):
    heard = Heard()
    number = life.expect_events(2, heard)
    life.receive(Stepped([token(number, 0, 5), last(number, 1)]))
    life.end(EngineDeadError("it failed"))
    assert [(e.index, e.finish_reason) for e in heard.events] == [(0, None), (1, "length"), (0, "error")]


def test_answers_to_questions_that_nobody_asks_any_more_are_dropped(life):
    number, waited = life.expect_answer()
    life.forget(number)
    life.receive(Answer(number, "late"))
    assert not waited.done()
    life.receive(Answer(10**6, "never asked"))


def test_nothing_is_expected_of_an_engine_that_is_no_more(life):
    life.end(EngineDeadError("it failed"))
    for expect in (life.expect_answer, lambda: life.expect_events(1, Heard())):
        with pytest.raises(EngineDeadError, match=r"it failed; restart\(\)"):
            expect()


def test_progress_that_nobody_ends_is_ended():
    shown = []

    class Shown:
        def start(self, description, *, total, unit="bytes"):
            shown.append(description)
            return self

        def advance(self, amount):
            shown.append(amount)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            shown.append("end")

    life = EngineLife(itertools.count(), progress=Shown())
    life.receive(Progressed(0, "start", "compiling", 3))
    life.receive(Progressed(0, "advance", amount=1))
    life.end(EngineDeadError("it died"))
    life.receive(Progressed(0, "advance", amount=1))
    assert shown == ["compiling", 1, "end"]


def test_steps_submissions_and_the_end_race_and_every_sample_ends_once():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draws = random.Random(seed)
    for _ in range(30):
        life = EngineLife(itertools.count(), progress=SILENT)
        life.receive(Ready())
        heard = Heard()
        numbers = [life.expect_events(2, heard) for _ in range(6)]
        late = []
        rows = [
            [token(n, i, k) for n in numbers for i in range(2)]
            + ([last(n, i) for n in numbers[: draws.randrange(6)] for i in range(2)] if k == 7 else [])
            for k in range(8)
        ]

        def steps(life=life, rows=rows):
            for step in rows:
                life.receive(Stepped(step))

        def submissions(life=life, late=late, heard=heard):
            with contextlib.suppress(EngineDeadError):
                for _ in range(300):
                    late.append(life.expect_events(1, heard))

        pause = draws.random() / 1000

        def end(life=life, pause=pause):
            threading.Event().wait(pause)
            life.end(EngineDeadError("it failed"))

        threads = [threading.Thread(target=work) for work in (steps, submissions, end)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        ends = {}
        for event in heard.events:
            key = event.request_id, event.index
            assert key not in ends, "something came after the end"
            if event.finish_reason is not None:
                ends[key] = event
        assert set(ends) == {(n, i) for n in numbers for i in range(2)} | {(n, 0) for n in late}
        assert life.num_pending == 0
