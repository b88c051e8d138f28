import os

import pytest
from benchmarks import measuring
from benchmarks.http import rounds
from benchmarks.http.contenders import Contender, Places
from benchmarks.http.load import Target
from benchmarks.http.processes import ServerError

from scripted_http_server import chat_events, scripted_server, streamed


class FakeProcess:
    """Stands for the process of a scripted server, which is this one."""

    start_s, pids, is_closed = 0.1, (os.getpid(),), False

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.is_closed = True


class FakeContender(Contender):
    """A server that runs already."""

    def run(self, places, model):
        if self.key == "broken":
            raise ServerError("it ended with 1")
        return FakeProcess(), Target("127.0.0.1", int(self.key), "m")


def _contender(name, key, form="own"):
    return FakeContender(
        name, key, form, program=lambda e: e, start=None, version=lambda e: f"{name} 1", is_peer=True
    )


@pytest.fixture
def measure(monkeypatch, tmp_path):
    """Measure the contenders; returns figures by task, and what was said."""
    monkeypatch.setattr(measuring, "wait_until_idle", lambda: None)
    (tmp_path / "model" / "own").mkdir(parents=True)

    def measure(*contenders, at_once=(2,), turns=2):
        figures, said = {}, []
        rounds.measure_servers(
            "model",
            contenders,
            Places(tmp_path, tmp_path, threads=1),
            at_once=at_once,
            rounds=turns,
            requests_per_s=None,
            figures=figures,
            say=said.append,
        )
        return figures, said

    return measure


def _right(body, number):
    return streamed(chat_events(["x"] * body["max_tokens"]))


def _short(body, number):
    return streamed(chat_events(["x"] * (body["max_tokens"] - 1)))


def test_servers_are_asked_the_same_in_turns(measure):
    with scripted_server(_right) as one, scripted_server(_right) as other:
        figures, said = measure(
            _contender("a", str(one.port)), _contender("b", str(other.port)), at_once=(1, 6)
        )
    assert list(figures) == ["1", "6"]
    for found in figures.values():
        assert found["a"].versions == {"program": "a 1"}
        for one_of_them in found.values():
            assert {
                "new_rate",
                "ttft_p50_ms",
                "itl_p99_ms",
                "rss_mb",
                "server_cpus",
            } <= one_of_them.values.keys()
            assert all(len(values) == 2 and min(values) >= 0 for values in one_of_them.values.values())
    assert sorted(map(str, one.bodies)) == sorted(map(str, other.bodies))  # a turn's come in any order
    prompts = [body["messages"][0]["content"] for body in one.bodies]
    assert len(set(prompts)) == len(prompts)
    assert sum("at once" in line for line in said) == 2


def test_who_cannot_is_named_and_left_out(measure):
    with scripted_server(_right) as one, scripted_server(_short) as other:
        figures, said = measure(
            _contender("a", str(one.port)),
            _contender("short", str(other.port)),
            _contender("b", "broken"),
            _contender("c", "0", form="gone"),
        )
    assert figures["2"]["a"].values and not figures["2"]["short"].values
    assert set(figures["2"]) == {"a", "short"}
    assert any(line.startswith("short sits out 2 at once: 2 of 2 answers are wrong") for line in said)
    assert "b is left out: it ended with 1" in said
    assert "c is left out: model is not there in its form (gone)" in said
