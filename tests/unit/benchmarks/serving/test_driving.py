import pytest
from benchmarks.serving.scenario import Request, Scenario, Setup
from benchmarks.serving.workers.driving import play

from fake_server import FakeServer


class Time:
    """Goes on a little whenever it is read, and by sleeping."""

    def __init__(self):
        self.now = 0.0

    def clock(self):
        self.now += 0.001
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def _play(requests, *, server=None, time=None, **setup):
    scenario = Scenario(requests, Setup(**{"max_seqs": 8, "max_tokens": 100, **setup}))
    time = time or Time()
    return play(server or FakeServer(scenario.setup), scenario, clock=time.clock, sleep=time.sleep)


def test_answers_come_token_by_token_with_their_times():
    first, second = _play([Request([1, 2], 3), Request([1] * 7, 1)]).answers
    assert first.tokens == [2, 3, 4] and second.tokens == [7]
    assert first.token_s == sorted(first.token_s) and first.token_s[0] == second.token_s[0]
    assert first.token_step == [0, 1, 2] and first.first_steps == 1
    assert (first.prompt_tokens, second.prompt_tokens) == (2, 7)


def test_a_request_comes_when_another_has_its_tokens():
    first, late = _play([Request([1], 6), Request([1], 1, after=(0, 4))]).answers
    assert late.arrived_step == 4
    assert late.token_step == [4] and late.first_steps == 1
    assert first.token_s[3] < late.arrived_s < late.token_s[0]


def test_a_continued_prompt_is_everything_before_it():
    server = FakeServer(Setup(max_seqs=1, max_tokens=99))
    requests = [Request([5, 5], 2), Request([6], 1, continues=0), Request([8, 8], 1, continues=1)]
    _play(requests, server=server)
    assert server.prompts[1] == [5, 5, 2, 3, 6]
    assert server.prompts[2] == [5, 5, 2, 3, 6, 5, 8, 8]


def test_a_pause_without_requests_is_slept_through_and_late_arrivals_count_from_their_time():
    time = Time()
    first, second = _play([Request([1], 1), Request([1], 1, at_s=50.0)], time=time).answers
    assert first.token_s[0] < 1
    assert second.arrived_s == 50.0
    assert 50.0 < second.token_s[0] < 51.0


def test_times_of_steps_are_kept_where_they_are_wanted():
    assert not _play([Request([1], 2)]).steps
    steps = _play([Request([1], 2), Request([1], 1)], parts=True).steps
    assert [step.num_tokens for step in steps] == [2, 1]
    assert all(step.parts["backend"] == 1e-9 and step.seconds > 0 for step in steps)


def test_a_short_answer_is_an_error():
    class Short(FakeServer):
        def submit(self, number, prompt, new_tokens):
            super().submit(number, prompt, new_tokens - 1)

    with pytest.raises(RuntimeError, match="request 0 got 2 tokens of 3"):
        _play([Request([1], 3)], server=Short(Setup(max_seqs=1, max_tokens=9)))


def test_a_request_that_can_never_come_is_an_error():
    with pytest.raises(RuntimeError, match=r"requests \[1\] wait for tokens that never come"):
        _play([Request([1], 2), Request([1], 1, after=(0, 3))])
