import pytest
from benchmarks import measuring
from benchmarks.peers.rounds import Setting
from benchmarks.serving import rounds
from benchmarks.serving.page import task_table
from benchmarks.serving.tasks import all_tasks

from fake_server import FakeServing

TASKS = {task.name: task for task in all_tasks()}


@pytest.fixture(scope="module")
def worker():
    with FakeServing("fake", "onnxgen").start(None) as worker:
        worker.ask("load", model="m", threads=1)
        yield worker


@pytest.mark.parametrize("name", TASKS)
def test_a_task_gives_a_figure_for_each_of_its_columns(worker, name):
    TASKS[name].try_out(worker)
    assert set(TASKS[name].run(worker)) == set(TASKS[name].columns)


def test_what_is_said_of_a_list_are_its_totals():
    about = TASKS["parallel.4"].about
    lengths = [pair.split("+") for pair in about.rpartition("(")[2].rstrip(")").split(", ")]
    prompts, answers = (sum(int(pair[i]) for pair in lengths) for i in (0, 1))
    assert f"{prompts} prompt tokens and {answers} new ones" in about


def test_equal_answers_are_counted(worker):
    assert TASKS["prefix.without"].run(worker)["same"] == 100


def test_computed_tokens_are_what_was_not_cached(worker):
    found = TASKS["chat"].run(worker)
    assert [found[f"turn{turn}_computed"] for turn in (1, 2)] == [304 - 3, 304 + 64 + 48 - 3]


def test_memory_is_told_after_each_wave(worker):
    found = TASKS["memory"].run(worker)
    assert [metric for metric in found if metric.startswith("rss")] == [
        f"rss_{n}_mb" for n in range(50, 501, 50)
    ]
    assert found["refused"] == 5


@pytest.fixture
def setting(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "wait_until_idle", lambda: None)
    said = []
    return Setting(tmp_path, tmp_path, threads=1, rounds=3, say=said.append), said


def test_only_those_who_can_are_measured_and_who_fails_sits_out(setting):
    setting, said = setting
    contenders = [
        FakeServing("ours", "onnxgen"),
        FakeServing("peer", "openvino", environment="openvino"),
        FakeServing("weak", "openvino", environment="o", on_open="assert setup.max_seqs < 4, 'too many'"),
    ]
    tasks = [TASKS["parallel.1"], TASKS["parallel.4"], TASKS["overhead.1"], TASKS["memory"]]
    figures = {}
    rounds.measure_model("m", contenders, tasks, setting, figures)
    assert "parallel.1.new_rate" in figures["weak"].values
    assert "parallel.4.new_rate" not in figures["weak"].values
    assert "weak sits out parallel.4: AssertionError: too many" in said
    assert len(figures["peer"].values["parallel.4.new_rate"]) == 3
    assert "overhead.1.plan_us" in figures["ours"].values
    assert not any(metric.startswith("overhead") for metric in figures["peer"].values)
    assert len(figures["ours"].values["memory.rss_50_mb"]) == 1

    table = task_table(tasks[1], figures, ours="ours", peers=["peer", "weak"])
    assert [row.split("|")[1].strip() for row in table.splitlines()] == [
        "",
        "---",
        "ours",
        "peer",
        "ours / best peer",
    ]
    assert table.splitlines()[0].startswith("|  | new tok/s | all tok/s | first token p50, ms |")
    assert task_table(TASKS["chat"], figures, ours="ours", peers=[]) is None
