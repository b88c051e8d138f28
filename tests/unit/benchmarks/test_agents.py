"""What the benchmark of schemas and guesses makes of a program's answers; made-up programs take its place."""

import json

import pytest
from benchmarks.agents import work
from benchmarks.agents.tasks import TASKS, Lab, measure_step
from benchmarks.peers.worker import WorkerError

THING = json.dumps({"name": "lamp", "kind": "garden", "price": 5, "available": True})


class Letters:
    """A tokenizer whose tokens are characters."""

    def encode(self, text):
        return list(map(ord, text))

    def decode(self, ids):
        return "".join(map(chr, ids))


class Program:
    """Writes the same text to all prompts: the first token after a second, then ten tokens a second."""

    def __init__(self, text, *, guesses=True):
        self.text, self.guesses, self.schemas = text, guesses, []

    def ask(self, what, *, prompts, new_tokens, drafts=0, schema=None, **how):
        if drafts and not self.guesses:
            raise WorkerError("no guesses")
        self.schemas.append(schema)
        answer = list(map(ord, self.text))[:new_tokens]
        seconds = (len(answer) - 1) / (20 if drafts else 10)
        return {"first_s": 1.0, "total_s": 1 + seconds, "answers": [answer] * len(prompts)}


def measured(task, program):
    lab = Lab(Letters(), new_tokens=11, drafts=8, match=2)
    (task,) = (one for one in TASKS if one.name == task)
    found = {}
    for name, step in task.steps(lab):
        found |= dict(measure_step(step, program, lab, name))
    return found, lab


@pytest.fixture(autouse=True)
def things_of_one_length(monkeypatch):
    monkeypatch.setattr(work, "THINGS", ("chair", "clock"))


def test_rates_count_what_follows_the_first_tokens_of_all_answers():
    alone, _ = measured("held.1", Program(THING))
    assert alone["held tok/s"] == pytest.approx(10)
    assert alone["free first ms"] == 1000
    together, _ = measured("held.8", Program(THING))
    assert together["held tok/s"] == pytest.approx(20)  # two answers at once


@pytest.mark.parametrize(("text", "count"), [(THING, 2), (THING[:-1], 0), (THING.replace("5", "-5"), 0)])
def test_answers_are_checked_against_the_schema(text, count):
    found, _ = measured("held.1", Program(text))
    assert found["valid"] == count


def test_a_new_schema_is_new_each_time():
    lab = Lab(Letters(), new_tokens=11, drafts=8, match=2)
    assert lab.new_schema() not in (lab.new_schema(), work.many_things())


def test_guesses_are_compared_with_none():
    _, listed = work.list_to_copy(Letters().encode)
    found, _ = measured("lookup", Program(Letters().decode(listed)))
    assert found["copy times"] == pytest.approx(2)
    assert found["copied"] and found["story same"]
    found, _ = measured("lookup", Program("something else"))
    assert not found["copied"]


def test_what_a_program_cannot_do_is_noted_and_the_rest_counts():
    found, lab = measured("lookup", Program(THING, guesses=False))
    assert set(found) == {"copy plain tok/s", "story plain tok/s"}
    assert lab.missing == {"copy": "no guesses", "story": "no guesses"}
