import json

import pytest
from benchmarks.http.answers import read_answer
from benchmarks.http.client import Exchange

from scripted_http_server import chat_events

RIGHT = chat_events(["It", " is", " 😀"])


def _exchange(events, **more):
    data = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in events]
    times = [1.0 + 0.5 * number for number in range(len(data))]
    seen = {"status": 200, "headers": {"content-type": "text/event-stream; charset=utf-8"}, **more}
    return Exchange(1.0, 9.0, events=data, event_s=times, **seen)


def test_a_right_stream_has_no_problems():
    answer = read_answer(_exchange(RIGHT))
    assert answer.problems == []
    assert (answer.text, answer.piece_s) == ("It is 😀", [1.5, 2.0, 2.5])
    assert (answer.prompt_tokens, answer.new_tokens, answer.finish_reason) == (5, 3, "length")


def test_completions_are_read_as_chats_are():
    events = [{"id": "a", "choices": [{"index": 0, "text": text, "finish_reason": None}]} for text in "xy"]
    events[1]["choices"][0]["finish_reason"] = "length"
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
    answer = read_answer(_exchange([*events, {"id": "a", "choices": [], "usage": usage}, b"[DONE]"]))
    assert (answer.problems, answer.text, answer.cached_tokens) == ([], "xy", 1)


def _without(number):
    return RIGHT[:number] + RIGHT[number + 1 :]


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        (_without(0), "text comes before the role"),
        (_without(4), "no finish reason"),
        (_without(5), "0 usages"),
        (_without(6), "no [DONE]"),
        ([*RIGHT[:5], RIGHT[2], *RIGHT[5:]], "a piece follows the finish reason"),
        ([*RIGHT[:5], RIGHT[4], *RIGHT[5:]], "a piece follows the finish reason"),
        ([*RIGHT[:5], RIGHT[5], *RIGHT[5:]], "2 usages"),
        ([*RIGHT, RIGHT[1]], "an event follows [DONE]"),
        ([*RIGHT, b"[DONE]"], "an event follows [DONE]"),
        ([*RIGHT[:3], chat_events(["x"], identity="b")[1], *RIGHT[3:]], "2 ids in one stream"),
        ([*RIGHT[:3], {"error": {"message": "the engine ended"}}], "the engine ended"),
        ([*RIGHT[:3], b'{"id"', *RIGHT[3:]], "no JSON"),
        ([{"id": "a", "choices": [{"index": 1, "delta": {}}]}, *RIGHT], "choice 1 was not asked for"),
    ],
)
def test_what_is_wrong_with_a_stream_is_named(events, problem):
    assert any(problem in one for one in read_answer(_exchange(events)).problems)


def test_a_refusal_is_told_with_its_status_and_words():
    answer = read_answer(Exchange(0.0, 1.0, status=429, body=b'{"error": {"message": "too many"}}'))
    assert answer.problems == ['status 429: {"error": {"message": "too many"}}']


def test_what_went_wrong_on_the_connection_is_told():
    answer = read_answer(_exchange(RIGHT[:3], failure="no end within 1 s", body=b"data: {"))
    assert answer.problems[0] == "no end within 1 s"
    assert "after the last event there is" in answer.problems[1]


def test_who_leaves_misses_nothing_of_the_end():
    answer = read_answer(_exchange(RIGHT[:3], left=True))
    assert (answer.problems, answer.text, answer.left) == ([], "It is", True)
