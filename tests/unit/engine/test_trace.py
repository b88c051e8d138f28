import itertools
import json

import pytest

from onnxgen.engine.trace import VERSION, EngineTrace
from onnxgen.kvcache.base import Copy


def trace_to(path, **changes):
    settings = {"num_blocks": 8, "block_size": 4, "max_seqs": 2, "max_step_tokens": 16, "chunk_tokens": 8}
    return EngineTrace(path, **(settings | changes))


def lines_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_the_first_lines_say_the_version_the_pool_and_the_budgets(tmp_path):
    trace_to(tmp_path / "t", window=16, window_blocks=3, exact=True).close()
    opened, budgets, closed = lines_of(tmp_path / "t")
    assert opened == {
        "n": 0,
        "event": "open",
        "version": VERSION,
        "num_blocks": 8,
        "block_size": 4,
        "window": 16,
        "window_blocks": 3,
        "exact": True,
    }
    assert budgets == {"n": 1, "event": "budgets", "max_seqs": 2, "max_step_tokens": 16, "chunk_tokens": 8}
    assert closed == {"n": 2, "event": "close"}


def test_events_are_numbered_and_hold_plain_lists(tmp_path):
    trace = trace_to(tmp_path / "t")
    trace.submit(0, 5, (1, 2, 3), samples=2, extra=("salt", "x"))
    trace.reserve(5, 0, 3, [7], copies=[Copy(1, 7, 2)])
    trace.execute([(5, 0, iter([1, 2, 3]))])
    trace.sample([(5, 9)])
    trace.close()
    lines = lines_of(tmp_path / "t")
    assert [line["n"] for line in lines] == list(range(len(lines)))
    assert lines[2] == {
        "n": 2,
        "event": "submit",
        "request": 0,
        "seq": 5,
        "prompt": [1, 2, 3],
        "samples": 2,
        "min_chunk_end": 0,
        "extra": "('salt', 'x')",
    }
    assert lines[3]["copies"] == [[1, 7, 2, 0]]
    assert lines[4]["parts"] == [[5, 0, [1, 2, 3]]]
    assert lines[5]["tokens"] == [[5, 9]]


def test_times_come_from_the_given_clock(tmp_path):
    clock = itertools.count(100)
    trace_to(tmp_path / "t", clock=lambda: float(next(clock))).close()
    assert [line["t"] for line in lines_of(tmp_path / "t")] == [100.0, 101.0, 102.0]


def test_equal_runs_without_a_clock_give_equal_files(tmp_path):
    for name in ("a", "b"):
        trace = trace_to(tmp_path / name)
        trace.submit(0, 0, [1])
        trace.close()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_was_executed_is_in_the_file_before_the_engine_closes(tmp_path):
    trace = trace_to(tmp_path / "t")
    trace.execute([(0, 0, [1])])
    assert lines_of(tmp_path / "t")[-1]["event"] == "execute"
    trace.close()


def test_closing_twice_writes_one_line(tmp_path):
    trace = trace_to(tmp_path / "t")
    trace.close()
    trace.close()
    assert [line["event"] for line in lines_of(tmp_path / "t")] == ["open", "budgets", "close"]


def test_a_folder_that_is_not_there_is_said_at_once(tmp_path):
    with pytest.raises(FileNotFoundError):
        trace_to(tmp_path / "none" / "t")
