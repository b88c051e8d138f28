import json

from benchmarks.http.work import CHAT, COMPLETIONS, WORDS, mixed, mixed_lengths, recognizable, steady


def test_all_turns_have_the_same_lengths_and_other_words():
    one, other = mixed(8, seed=1), mixed(8, seed=2)
    shape = [(len(q.prompt[0]["content"].split()), q.new_tokens) for q in one]
    assert shape == [(len(q.prompt[0]["content"].split()), q.new_tokens) for q in other] == mixed_lengths(8)
    assert not {q.prompt[0]["content"] for q in one} & {q.prompt[0]["content"] for q in other}
    assert mixed_lengths(16)[:8] == mixed_lengths(8)
    assert all(32 <= words <= 512 and 16 <= new <= 128 for words, new in mixed_lengths(500))


def test_random_arrivals_follow_each_other():
    times = [question.at_s for question in mixed(50, seed=3, requests_per_s=10.0)]
    assert times == sorted(times) and 1.0 < times[-1] < 25.0
    assert all(question.at_s == 0.0 for question in mixed(3, seed=3))


def test_recognizable_questions_are_all_different():
    questions = recognizable(130, new_tokens=9)
    assert len({json.dumps(question.prompt) for question in questions}) == 130
    assert {question.path for question in questions} == {CHAT, COMPLETIONS}
    assert len(set(WORDS)) == len(WORDS)


def test_a_body_is_what_the_endpoint_takes():
    (chat,) = steady(1, seed=1)
    told = json.loads(chat.body("m"))
    assert told["messages"] == chat.prompt and "prompt" not in told and told["max_tokens"] == 64
    counting = recognizable(1, new_tokens=4)[0]
    assert json.loads(counting.body("m"))["prompt"] == counting.prompt
