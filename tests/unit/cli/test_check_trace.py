import json

import pytest

from onnxgen.engine.trace import EngineTrace


@pytest.fixture
def trace(tmp_path):
    """A run of one request whose end is told twice; what was written, and how many lines."""
    path = tmp_path / "steps.jsonl"
    trace = EngineTrace(path, num_blocks=2, block_size=4, max_seqs=1, max_step_tokens=4, chunk_tokens=4)
    trace.submit(0, 0, [1])
    trace.release(0)
    trace.finish(0, 0, "cancelled")
    trace.close()
    return path


def test_a_run_that_breaks_no_rule(onnxgen, trace):
    result = onnxgen("check-trace", trace)
    assert (result.exit_code, result.stdout) == (0, "6 events, 0 steps: no rule is broken\n")


def test_each_broken_rule_is_shown_with_its_line(onnxgen, trace):
    lines = trace.read_text("utf-8").splitlines()
    trace.write_text("\n".join([*lines[:5], lines[4], *lines[5:]]), "utf-8")
    result = onnxgen("check-trace", trace)
    assert result.exit_code == 1
    shown = result.stdout.splitlines()
    assert shown[0].startswith("line 6: numbering: ")
    assert shown[1].startswith("line 6: finish: sample 0 of request 0 ends again")
    assert shown[-1] == "7 events, 0 steps: 1 numbering, 1 finish"
    assert onnxgen("check-trace", trace, "--max", "0").stdout.splitlines() == shown[-1:]
    found = json.loads(onnxgen("check-trace", trace, "--json").stdout)
    assert [violation["rule"] for violation in found["violations"]] == ["numbering", "finish"]


def test_a_file_that_is_not_there_is_wrong_usage(onnxgen, tmp_path):
    assert onnxgen("check-trace", tmp_path / "none").exit_code == 2
