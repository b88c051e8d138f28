import json

import pytest
from benchmarks.serving.timeline import Answer, StepTimes, Timeline, percentile, percentiles


def _answer(arrived_s, *times, prompt_tokens=10):
    return Answer(
        prompt_tokens, arrived_s, 2, list(range(len(times))), list(times), [2 + i for i in range(len(times))]
    )


def test_latencies_count_from_arrivals_and_pool_all_pauses():
    found = Timeline([_answer(0.0, 1.0, 1.1, 1.3), _answer(0.5, 0.75)]).latencies()
    assert found == pytest.approx(
        {
            "ttft_p50_ms": 250.0,
            "ttft_p90_ms": 1000.0,
            "ttft_p99_ms": 1000.0,
            "itl_p50_ms": 100.0,
            "itl_p99_ms": 200.0,
        }
    )


def test_answers_of_one_token_have_no_pauses():
    assert set(Timeline([_answer(0.0, 1.0)]).latencies()) == {"ttft_p50_ms", "ttft_p90_ms", "ttft_p99_ms"}


def test_throughput_is_that_of_all_together():
    timeline = Timeline([_answer(1.0, 2.0, 3.0, prompt_tokens=7), _answer(2.0, 5.0, prompt_tokens=2)])
    assert timeline.throughput() == {"new_rate": 3 / 4.0, "total_rate": 12 / 4.0}


def test_the_first_step_after_an_arrival_is_one():
    assert _answer(0.0, 1.0).first_steps == 1


def test_pauses_within_a_time_are_those_that_overlap_with_it():
    answer = _answer(0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
    assert answer.pauses_within(3.0, 8.0) == [2.0, 4.0]
    assert answer.pauses_within(20.0, 30.0) == []


@pytest.mark.parametrize(("percent", "value"), [(1, 1.0), (50, 50.0), (90, 90.0), (99, 99.0), (100, 100.0)])
def test_percentiles_of_a_hundred_values(percent, value):
    assert percentile([float(number) for number in range(100, 0, -1)], percent) == value


def test_percentiles_of_few_values_are_values():
    assert percentile([3.0, 1.0], 50) == 1.0
    assert percentile([3.0, 1.0], 51) == 3.0
    assert percentiles("x", [], (50, 99)) == {}


def test_a_timeline_comes_over_as_it_is():
    timeline = Timeline([_answer(0.0, 1.0, 2.0)], [StepTimes(0.5, 2, {"plan": 0.1})])
    assert Timeline.from_json(json.loads(json.dumps(timeline.to_json()))) == timeline
