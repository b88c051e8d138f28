import json
import sys

import pytest
from benchmarks import measuring
from benchmarks.serving import __main__ as serving
from benchmarks.serving.contenders import CONTENDERS
from benchmarks.serving.tasks import all_tasks

from fake_server import FakeServing


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run the command over made-up contenders; returns the page and the JSON."""

    def run(*arguments):
        monkeypatch.setattr(measuring, "wait_until_idle", lambda: None)
        ours = FakeServing("onnxgen", "onnxgen", arguments=("native",))
        other = FakeServing("other", "openvino", environment="openvino")
        monkeypatch.setattr(serving, "CONTENDERS", (ours, other))
        files = tmp_path / "out.json", tmp_path / "page.md"
        places = ["--environments", str(tmp_path), "--models", str(tmp_path), "--threads", "1"]
        outputs = ["--json", str(files[0]), "--write", str(files[1])]
        monkeypatch.setattr(sys, "argv", ["serving", *places, *outputs, "--rounds", "1", *arguments])
        serving.main()
        return files[1].read_text(encoding="utf-8"), json.loads(files[0].read_text(encoding="utf-8"))

    return run


def test_page_and_json_have_what_was_measured(run, capsys):
    page, found = run("--model", "smollm2-135m", "--tasks", "parallel.4,chat")
    assert "## smollm2-135m" in page and "random" not in page
    assert "### parallel.4\n\n4 requests of mixed lengths, at once: " in page
    assert "### chat" in page and "### memory" not in page
    assert "| onnxgen / best peer |" in page
    assert capsys.readouterr().out.strip() == page.strip()
    metrics = found["models"]["smollm2-135m"]["other"]["metrics"]
    assert metrics["parallel.4.new_rate"]["median"] > 0
    assert "at once" in found["tasks"]["parallel.4"]
    assert found["conditions"]["rounds"] == 1


def test_a_kind_is_all_of_its_tasks_and_requests_may_come_at_random(run):
    page, found = run(
        "--model", "random-0.5b", "--tasks", "prefix,parallel.1", "--only", "native", "--rate", "900"
    )
    assert "### prefix.turns" in page and "### prefix.together" in page
    assert "at random, 900 a second" in found["tasks"]["parallel.1"]
    assert set(found["models"]["random-0.5b"]) == {"onnxgen"}


def test_large_models_are_asked_for_less():
    small, large = (
        {task.name for task in all_tasks() if serving.is_chosen(task, None, model)}
        for model in ("smollm2-135m", "random-0.5b")
    )
    assert small == {task.name for task in all_tasks()}
    assert set() < large < small


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "native,og"), "--only: there is no og; there are native, openvino"),
        (("--tasks", "parallel.7"), "--tasks: there is no parallel.7; there are parallel.1"),
        (("--model", "big"), "--model: there is no big"),
        (("--rate", "0"), "--rate: requests a second must be more than 0, got 0"),
    ],
)
def test_unknown_choices_are_refused(run, capsys, arguments, message):
    with pytest.raises(SystemExit):
        run(*arguments)
    assert message in capsys.readouterr().err


def test_contenders_have_workers_of_their_own():
    assert [contender.key for contender in CONTENDERS] == ["native", "ort", "openvino", "llamacpp"]
    assert {contender.workers for contender in CONTENDERS} == {"benchmarks.serving.workers"}
