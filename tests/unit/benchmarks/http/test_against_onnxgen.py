"""The load generator and onnxgen's own server, on a scripted model: many clients, some of whom leave."""

import random
import time
from urllib.parse import urlsplit

from benchmarks.http.figures import require_right
from benchmarks.http.load import Target, ask_all, ask_for_a_while, run_clients
from benchmarks.http.soak import Checker, with_answers_of_their_own
from benchmarks.http.work import mixed, recognizable

from onnxgen.server.app import create_app
from server_doubles import fake_services, running

CLIENTS = 32


def _target(url):
    parts = urlsplit(url)
    return Target(parts.hostname, parts.port, "tiny")


def test_many_clients_get_their_own_answers_and_leave_nothing_behind(tmp_path):
    seed = random.randrange(10**6)
    print("seed", seed)
    services = fake_services(tmp_path)
    seen = []
    with running(create_app(services)) as url:
        target, questions = _target(url), recognizable(CLIENTS, new_tokens=24)
        alone = run_clients(ask_all(target, questions, at_once=1))
        require_right(alone, [24] * CLIENTS)
        questions, alone = with_answers_of_their_own(questions, alone)
        assert len(questions) > CLIENTS // 2
        tally = run_clients(
            ask_for_a_while(
                target,
                questions,
                clients=CLIENTS,
                seconds=1.5,
                check=Checker(questions, alone).problems,
                seen=seen.append,
                leaving=0.5,
                seed=seed,
            )
        )
        (model,) = services.models.loaded()
        llm = model.llm
        deadline = time.monotonic() + 20
        while llm.num_pending and time.monotonic() < deadline:
            time.sleep(0.01)
        assert llm.num_pending == 0
    assert tally.problems == []
    assert tally.answers == len(seen) and tally.left > 0
    assert tally.answers + tally.left >= CLIENTS


def test_mixed_conversations_come_as_long_as_asked_for(tmp_path):
    with running(create_app(fake_services(tmp_path, context=8192))) as url:
        questions = mixed(6, seed=1)
        answers = run_clients(ask_all(_target(url), questions))
        require_right(answers, [question.new_tokens for question in questions])
