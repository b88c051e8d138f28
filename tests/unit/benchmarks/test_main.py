import json
import sys

import pytest
from benchmarks import measuring
from benchmarks.peers import __main__ as peers
from benchmarks.peers.bounds import Machine

from fake_peer import FakeContender


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run the command over made-up contenders; returns the page and the JSON."""

    def run(*arguments):
        monkeypatch.setattr(measuring, "wait_until_idle", lambda: None)
        monkeypatch.setattr(peers, "measure_machine", lambda threads: Machine(1e9, 1e9, 1e9))
        ours, other = FakeContender("onnxgen", "own"), FakeContender("other", "og", environment="og")
        monkeypatch.setattr(peers, "CONTENDERS", (ours, other))
        files = tmp_path / "out.json", tmp_path / "page.md"
        places = ["--environments", str(tmp_path), "--models", str(tmp_path), "--threads", "1"]
        outputs = ["--json", str(files[0]), "--write", str(files[1])]
        monkeypatch.setattr(sys, "argv", ["peers", *places, *outputs, *arguments])
        peers.main()
        return files[1].read_text(encoding="utf-8"), json.loads(files[0].read_text(encoding="utf-8"))

    return run


def test_page_and_json_have_what_was_measured(run, capsys):
    page, found = run(
        *("--model", "smollm2-135m", "--only", "own,og", "--tasks", "prefill.512", "--rounds", "1")
    )
    assert "## smollm2-135m" in page and "random" not in page
    assert "| onnxgen / best peer |" in page
    assert set(found["models"]) == {"smollm2-135m"}
    figures = found["models"]["smollm2-135m"]["other"]
    assert figures["metrics"]["prefill.512"]["values"] == [100.0]
    assert found["conditions"]["threads"] == 1
    assert capsys.readouterr().out.strip() == page.strip()


def test_what_was_measured_before_an_interruption_is_kept(run, monkeypatch):
    measure = peers.measure_model

    def interrupted(*arguments):
        measure(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(peers, "measure_model", interrupted)
    _, found = run("--only", "own", "--tasks", "decode.128", "--rounds", "1")
    assert list(found["models"]) == ["smollm2-135m"]
    assert found["models"]["smollm2-135m"]["onnxgen"]["metrics"]["decode.128"]["median"] == 20.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "own,vllm"), "--only: there is no vllm; there are own, og"),
        (("--tasks", "prefill.7"), "--tasks: there is no prefill.7; there are prefill.128"),
        (("--model", "big"), "--model: there is no big"),
    ],
)
def test_unknown_choices_are_refused(run, capsys, arguments, message):
    with pytest.raises(SystemExit):
        run(*arguments)
    assert message in capsys.readouterr().err
