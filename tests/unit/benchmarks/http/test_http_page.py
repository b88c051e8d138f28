import sys

import pytest
from benchmarks.http import __main__ as command
from benchmarks.http.overhead import PROCESS, SERVER, THREAD
from benchmarks.http.page import document

CONDITIONS = {
    "date": "2026-11-30",
    "machine": "x86_64",
    "threads": 2,
    "versions": {"onnxgen": "0.1.0"},
    "model": "smollm2-135m",
    "rounds": 3,
    "at_once": 16,
    "requests_per_s": None,
}


def _one(rate, foreign=0.01):
    return {
        "versions": {"program": f"v{rate}"},
        "metrics": {"new_rate": {"median": rate, "foreign_cpus": [foreign]}},
    }


def test_compared_servers_have_a_table_for_each_count():
    tasks = {"1": {"onnxgen": _one(200.0), "theirs": _one(100.0)}, "8": {"theirs": _one(50.0, 0.3)}}
    report = {
        "kind": "compare",
        "conditions": CONDITIONS,
        "ours": "onnxgen",
        "peers": ["theirs"],
        "tasks": tasks,
    }
    page = document([report])
    assert "### 1 client, one request after the other" in page and "### 8 requests, sent together" in page
    assert "| onnxgen / best peer | 2.00 |" in page
    assert "0.30 CPUs, more than the 0.08" in page
    assert "onnxgen: v200.0; theirs: v50.0." in page


def test_overhead_is_told_beside_each_way():
    way = {"new_rate": 400.0, "ttft_p50_ms": 1.0, "itl_p50_ms": 2.0, "itl_p99_ms": 3.0}
    found = {
        "ways": {THREAD: way, PROCESS: way, SERVER: way},
        "overhead_percent": {THREAD: {"median": 3.21}, PROCESS: {"median": -1.0}},
        "foreign_cpus": 0.0,
    }
    page = document([{"kind": "overhead", "conditions": CONDITIONS, "found": found}])
    assert f"| {THREAD} | 400.0 | 1.0 | 2.0 | 3.0 | +3.2 % |" in page
    assert f"| {SERVER} | 400.0 | 1.0 | 2.0 | 3.0 | - |" in page


def test_a_soak_shows_what_was_wrong():
    tally = {"answers": 9, "left": 1, "wrong": 1, "new_tokens": 99, "problems": ["question 3: no [DONE]"]}
    figures = {
        "new_rate": 40.0,
        "ttft_p50_ms": 1.0,
        "ttft_p99_ms": 2.0,
        "itl_p50_ms": 3.0,
        "itl_p99_ms": 4.0,
    }
    found = {"clients": 64, "seconds": 300.0, "tally": tally, "figures": figures, "changed_alone": 0}
    found |= {"samples": [{"rss_mb": [1.0, 2.0]}] * 3, "growth_mb_per_min": 0.5, "foreign_cpus": 0.4}
    page = document([{"kind": "soak", "conditions": CONDITIONS, "found": found}])
    assert "| wrong answers | 1 |" in page and "- question 3: no [DONE]" in page
    assert "3, 3, 3 MB" in page and "0.40 CPUs, more than" in page and "+0.50 MB a minute" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "--only", "native,vllm"), "--only: there is no vllm; there are native, ort, llamacpp"),
        (("compare", "--at-once", "1,99"), "--at-once: servers are started for 16 requests, got 99"),
        (("measure",), "invalid choice"),
    ],
)
def test_unknown_choices_are_refused(monkeypatch, capsys, tmp_path, arguments, message):
    places = ["--environments", str(tmp_path), "--models", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["http", *arguments, *places])
    with pytest.raises(SystemExit):
        command.main()
    assert message in capsys.readouterr().err
