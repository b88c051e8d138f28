import pytest
from benchmarks.http.figures import WrongAnswersError, figures_of, require_right
from benchmarks.http.load import Target, ask_all, ask_for_a_while, run_clients
from benchmarks.http.soak import Checker
from benchmarks.http.work import CHAT, Question

from scripted_http_server import chat_events, scripted_server, streamed


def _questions(count, new_tokens=3, pause=0.0):
    return [
        Question(CHAT, [{"role": "user", "content": str(n)}], new_tokens, at_s=pause * n)
        for n in range(count)
    ]


def _told(body):
    """Each question has an answer of its own: its number, as often as tokens were asked for."""
    return streamed(chat_events([body["messages"][0]["content"]] * body["max_tokens"]))


@pytest.mark.parametrize("at_once", [None, 1, 3, 99])
def test_answers_are_in_the_order_of_questions(at_once):
    with scripted_server(lambda body, number: [0.01, *_told(body)]) as server:
        answers = run_clients(ask_all(Target("127.0.0.1", server.port, "m"), _questions(7), at_once=at_once))
    assert [answer.text for answer in answers] == [str(n) * 3 for n in range(7)]
    require_right(answers, [3] * 7)
    assert server.connections == min(at_once or 7, 7)
    assert {body["model"] for body in server.bodies} == {"m"}
    assert all(body["stream"] and body["ignore_eos"] and body["temperature"] == 0 for body in server.bodies)


def test_questions_are_asked_at_their_times():
    with scripted_server(lambda body, number: _told(body)) as server:
        answers = run_clients(ask_all(Target("127.0.0.1", server.port, "m"), _questions(4, pause=0.05)))
    began = answers[0].sent_s
    assert all(answer.sent_s - began >= 0.05 * n - 0.005 for n, answer in enumerate(answers))


def test_answers_of_another_length_are_refused():
    with scripted_server(lambda body, number: _told({**body, "max_tokens": 2 + number})) as server:
        answers = run_clients(ask_all(Target("127.0.0.1", server.port, "m"), _questions(2), at_once=1))
    with pytest.raises(WrongAnswersError, match="1 of 2 answers are wrong; answer 0: 2 tokens"):
        require_right(answers, [3, 3])


def test_figures_count_from_the_first_request_to_the_last_byte():
    with scripted_server(lambda body, number: [0.05, *_told(body)]) as server:
        answers = run_clients(ask_all(Target("127.0.0.1", server.port, "m"), _questions(4)))
    found = figures_of(answers)
    whole = max(a.ended_s for a in answers) - min(a.sent_s for a in answers)
    assert found["new_rate"] == pytest.approx(12 / whole)
    assert 50 <= found["ttft_p50_ms"] <= found["ttft_p99_ms"] <= 1e3 * whole
    assert found["itl_p50_ms"] <= found["itl_p99_ms"]


def _for_a_while(answer, *, leaving=0.0):
    questions = _questions(4)
    seen = []
    with scripted_server(answer) as server:
        target = Target("127.0.0.1", server.port, "m")
        alone = run_clients(ask_all(target, questions, at_once=1))
        tally = run_clients(
            ask_for_a_while(
                target,
                questions,
                clients=6,
                seconds=0.4,
                check=Checker(questions, alone).problems,
                seen=seen.append,
                leaving=leaving,
            )
        )
    return tally, seen, server


def test_a_right_server_gives_no_problem():
    tally, seen, server = _for_a_while(lambda body, number: _told(body))
    assert (tally.wrong, tally.problems) == (0, [])
    assert tally.answers == len(seen) > 6 and tally.new_tokens == 3 * tally.answers
    assert server.most_open == 6


def test_an_answer_that_is_anothers_shows():
    def crossed(body, number):
        other = {**body, "messages": [{"content": "0"}]}
        return _told(other if number > 4 and body["messages"][0]["content"] == "3" else body)

    tally, _, _ = _for_a_while(crossed)
    assert 0 < tally.wrong < tally.answers
    assert all("it is the answer to question 0" in problem for problem in tally.problems)


def test_a_lost_token_shows():
    def losing(body, number):
        short = {**body, "max_tokens": body["max_tokens"] - 1}
        return _told(short if number == 9 else body)

    tally, _, _ = _for_a_while(losing)
    assert tally.wrong == 1
    assert "2 tokens, 3 were asked for" in tally.problems[0] and "from character 2 on" in tally.problems[0]


def test_clients_that_leave_are_counted_apart():
    tally, seen, _ = _for_a_while(lambda body, number: _told(body), leaving=1.0)
    assert tally.left > 0 and tally.wrong == 0
    assert tally.answers == len(seen)


def test_refusals_are_wrong_and_do_not_end_the_load():
    def refusing(body, number):
        refusal = b'HTTP/1.1 503 Service Unavailable\r\nContent-Length: 7\r\n\r\n{"no":1}'[:-1]
        return [refusal] if number == 8 else _told(body)

    tally, _, _ = _for_a_while(refusing)
    assert tally.wrong == 1 and "status 503" in tally.problems[0]
    assert tally.answers > 8
