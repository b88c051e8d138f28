import dataclasses

import pytest
from benchmarks import measuring
from benchmarks.peers import rounds
from benchmarks.peers.contenders import CONTENDERS
from benchmarks.peers.metrics import COLUMNS, TASKS, Task

from fake_peer import FakeContender


@pytest.fixture
def said():
    return []


@pytest.fixture
def setting(tmp_path, said, monkeypatch):
    monkeypatch.setattr(measuring, "wait_until_idle", lambda: None)
    return rounds.Setting(tmp_path, tmp_path, threads=1, rounds=2, new_tokens=9, tasks=TASKS, say=said.append)


def _measured(model, contenders, setting):
    figures = {}
    rounds.measure_model(model, contenders, setting, figures)
    return figures


def test_figures_of_all_tasks(setting):
    (found,) = _measured("m", [FakeContender("a", "a")], setting).values()
    assert set(COLUMNS) - {"rss_load_mb", "rss_peak_mb"} <= set(found.medians) <= set(COLUMNS)
    assert found.medians["prefill.512"] == pytest.approx(100)
    assert found.medians["decode.1024"] == pytest.approx(20)
    assert found.medians["streams.8"] == 8 * 8 / 2.0
    assert found.medians["e2e.8"] == 8 * 9 / 4.0
    assert len(found.values["prefill.128"]) == len(found.foreign_cpus["prefill.128"]) == 2


def test_only_what_was_asked_for_is_measured(setting):
    few = dataclasses.replace(setting, tasks=[Task("decode", 128)])
    (found,) = _measured("m", [FakeContender("a", "a")], few).values()
    assert set(found.medians) - {"load_s", "rss_load_mb", "rss_peak_mb"} == {"decode.128"}


def test_who_fails_in_a_task_sits_out(setting, said):
    weak = FakeContender("weak", "a", streams="raise MemoryError(len(prompts))")
    found = _measured("m", [FakeContender("strong", "a"), weak], setting)
    assert "streams.16" in found["strong"].medians
    assert "prefill.128" in found["weak"].medians
    assert not any(task in found["weak"].medians for task in ("streams.4", "e2e.16"))
    assert "weak sits out streams 16: MemoryError: 16" in said


def test_who_lacks_something_is_named(setting, said, tmp_path):
    assert _measured("m", CONTENDERS, setting) == {}
    assert "OpenVINO GenAI is left out: its environment (peers-openvino) is not there" in said
    assert "onnxgen is left out: m is not there in its form (onnxgen)" in said


def test_who_does_not_load_is_named(setting, said):
    assert _measured("broken", [FakeContender("a", "broken")], setting) == {}
    assert said == ["a is left out: it does not load broken: ValueError: no model at all"]


def test_tasks_fill_the_columns():
    rates = {metric for task in TASKS for metric in task.bound(lambda *_: 1.0)}
    assert rates == {metric for metric in COLUMNS if metric.startswith(("prefill", "decode", "streams"))}


def test_noisy_rounds_are_repeated_and_the_quietest_kept(monkeypatch):
    loads = iter([0.5, 0.0, 0.3, 0.01])

    class Watch:
        def __init__(self, pids):
            pass

        def __enter__(self):
            self.foreign_cpus = next(loads)
            return self

        def __exit__(self, *error):
            pass

    numbers = iter(range(9))
    monkeypatch.setattr(measuring, "Watch", Watch)
    monkeypatch.setattr(measuring, "wait_until_idle", lambda: None)
    kept = measuring.quiet_rounds({"a": lambda: next(numbers)}, rounds=2)
    assert [(turn["a"].value, turn["a"].foreign_cpus) for turn in kept] == [(1, 0.0), (3, 0.01)]
