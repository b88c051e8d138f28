import json

import pytest
from benchmarks.serving import scenario
from benchmarks.serving.scenario import Request, Scenario


@pytest.mark.parametrize(
    "asked",
    [
        scenario.mixed(5, requests_per_s=2.0),
        scenario.shared_prompt(in_turn=True, prefix_reuse=False),
        scenario.joining(2048, step_tokens=256),
        scenario.conversation(3),
        scenario.steady(2),
    ],
    ids=["mixed", "shared", "joining", "conversation", "steady"],
)
def test_a_worker_is_told_the_whole_scenario(asked):
    assert Scenario.from_json(json.loads(json.dumps(asked.to_json()))) == asked


def test_mixed_lists_are_fixed_and_longer_ones_begin_with_shorter_ones():
    few, many = scenario.mixed(4), scenario.mixed(32)
    assert many.requests[:4] == few.requests
    assert many == scenario.mixed(32)


def test_mixed_lengths_are_within_their_bounds_and_differ():
    requests = scenario.mixed(32).requests
    assert all(32 <= len(one.prompt) <= 1024 and 16 <= one.new_tokens <= 256 for one in requests)
    assert len({(len(one.prompt), one.new_tokens) for one in requests}) > 28
    assert len({tuple(one.prompt[:32]) for one in requests}) == 32


def test_random_arrivals_change_nothing_else():
    at_once, in_time = scenario.mixed(200), scenario.mixed(200, requests_per_s=4.0)
    assert [one.prompt for one in at_once.requests] == [one.prompt for one in in_time.requests]
    times = [one.at_s for one in in_time.requests]
    assert {one.at_s for one in at_once.requests} == {0.0}
    assert times == sorted(times)
    assert 200 / times[-1] == pytest.approx(4.0, rel=0.3)


def test_the_server_has_room_for_all_of_a_scenario():
    asked = scenario.mixed(8)
    assert asked.setup.max_seqs == 8
    assert asked.setup.max_tokens == max(len(one.prompt) + one.new_tokens for one in asked.requests)
    assert scenario.conversation(3, system=10, user=5, answer=7).setup.max_tokens == 10 + 3 * (5 + 7)


def test_totals_count_what_is_continued_again():
    turns = Scenario([Request([1] * 5, 4), Request([2] * 3, 2, continues=0)], scenario.steady(1).setup)
    assert turns.new_tokens == 6
    assert turns.prompt_tokens == 5 + (5 + 4 + 3)


def test_shared_prompts_have_own_tails():
    requests = scenario.shared_prompt(in_turn=False, prefix_reuse=True, count=5, shared=20, tail=6).requests
    assert len({tuple(one.prompt[:20]) for one in requests}) == 1
    assert len({tuple(one.prompt[20:]) for one in requests}) == 5
    assert {one.after for one in requests} == {None}


def test_a_warming_turn_is_short_and_still_ends():
    cut = scenario.joining(2048, step_tokens=512).cut(prompt=64, answer=4)
    assert all(len(one.prompt) <= 64 and one.new_tokens <= 4 for one in cut.requests)
    number, tokens = cut.requests[-1].after
    assert tokens <= cut.requests[number].new_tokens
