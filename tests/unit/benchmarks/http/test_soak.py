import math

import pytest
from benchmarks.http.answers import Answer
from benchmarks.http.load import Tally
from benchmarks.http.soak import Endurance, Sample, slope, with_answers_of_their_own
from benchmarks.http.work import recognizable


def test_slope_of_points():
    assert slope([0, 1, 2], [5.0, 7.0, 9.0]) == pytest.approx(2.0)
    assert slope([3.0], [1.0]) == 0.0
    assert math.isclose(slope([0, 1, 2, 3], [1, 1, 1, 1]), 0.0, abs_tol=1e-12)


def test_growth_is_that_of_the_second_half():
    warming = [Sample(5.0 * n, [100.0 + 50 * n, 10.0]) for n in range(5)]
    steady = [Sample(25.0 + 5 * n, [300.0 + n, 10.0]) for n in range(6)]
    endurance = Endurance(2, 50.0, Tally(), {}, [*warming, *steady])
    assert endurance.growth_mb_per_min == pytest.approx(12.0)
    assert endurance.to_json()["growth_mb_per_min"] == endurance.growth_mb_per_min


def test_questions_that_share_an_answer_are_left_out():
    questions = recognizable(4, new_tokens=2)
    alone = [Answer(0.0, 1.0, text=text) for text in "abac"]
    kept, answers = with_answers_of_their_own(questions, alone)
    assert kept == [questions[1], questions[3]] and [answer.text for answer in answers] == ["b", "c"]
