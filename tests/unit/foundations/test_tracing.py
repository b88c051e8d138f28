import json
import math
import os
import threading

import pytest

from onnxgen.foundations.tracing import OFF, TraceRecorder


class Clock:
    def __init__(self):
        self.now_ns = 5_000

    def __call__(self):
        self.now_ns += 1_000
        return self.now_ns


def written(recorder, tmp_path):
    path = tmp_path / "trace.json"
    recorder.write(path)
    return json.loads(path.read_text(encoding="utf-8"))


def spans(recorder):
    return [event for event in recorder.events() if event["ph"] == "X"]


def test_a_span_is_a_complete_event_in_microseconds():
    recorder = TraceRecorder(clock_ns=Clock())
    with recorder.span("load", "session", nodes=3):
        pass
    (event,) = spans(recorder)
    assert event == {
        "ph": "X", "name": "load", "cat": "session", "ts": 1.0, "dur": 1.0,
        "pid": os.getpid(), "tid": threading.get_native_id(), "args": {"nodes": 3},
    }  # fmt: skip


def test_spans_nest_and_come_in_the_order_of_their_start():
    recorder = TraceRecorder(clock_ns=Clock())
    with recorder.span("outer", "c"):
        with recorder.span("first", "c"):
            pass
        with recorder.span("second", "c"):
            pass
    outer, first, second = spans(recorder)
    assert [event["name"] for event in (outer, first, second)] == ["outer", "first", "second"]
    assert outer["ts"] < first["ts"] < first["ts"] + first["dur"] < second["ts"]
    assert second["ts"] + second["dur"] < outer["ts"] + outer["dur"]


def test_of_spans_that_start_together_the_longer_one_comes_first():
    recorder = TraceRecorder(clock_ns=Clock())
    begin = recorder.now_ns()
    recorder.finish("inner", "c", begin, {})
    recorder.finish("outer", "c", begin, {})
    assert [event["name"] for event in spans(recorder)] == ["outer", "inner"]


def test_a_failing_block_is_recorded_with_its_error():
    recorder = TraceRecorder()
    with pytest.raises(KeyError), recorder.span("node", "c", op="Add"):
        raise KeyError("x")
    assert spans(recorder)[0]["args"] == {"op": "Add", "error": "KeyError"}


def test_what_is_learned_inside_a_block_is_recorded():
    recorder, outputs = TraceRecorder(), []
    with recorder.span("node", "c", outputs=outputs):
        outputs.append("float32 2x3")
    assert spans(recorder)[0]["args"] == {"outputs": ["float32 2x3"]}


def test_the_file_is_what_viewers_read(tmp_path):
    recorder = TraceRecorder()
    with recorder.span("a", "c", bad=math.nan, deep={"k": (1, object)}, data=b"x"):
        recorder.instant("moment", "c", count=2)
    document = written(recorder, tmp_path)
    phases = [event["ph"] for event in document["traceEvents"]]
    assert phases == ["M", "M", "X", "i"]
    process, thread, span, moment = document["traceEvents"]
    assert process["args"] == {"name": "onnxgen"}
    assert thread["args"] == {"name": "MainThread"}
    assert span["args"]["bad"] == "nan"
    assert span["args"]["deep"]["k"][0] == 1
    assert moment["s"] == "t"
    assert all({"name", "pid", "tid"} <= event.keys() for event in document["traceEvents"])
    assert document["otherData"]["dropped_events"] == 0


def test_a_full_recorder_counts_what_it_drops(tmp_path):
    recorder = TraceRecorder(max_events=2)
    for number in range(5):
        recorder.instant(str(number), "c")
    assert recorder.dropped == 3
    document = written(recorder, tmp_path)
    assert [event["name"] for event in document["traceEvents"] if event["ph"] == "i"] == ["0", "1"]
    assert document["otherData"]["dropped_events"] == 3


def test_threads_have_their_own_rows():
    recorder = TraceRecorder()
    ready = threading.Barrier(4)  # together alive: the numbers of ended threads are given again

    def work():
        ready.wait()
        for _ in range(200):
            with recorder.span("turn", "c"):
                pass
        ready.wait()

    threads = [threading.Thread(target=work, name=f"worker-{at}") for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(spans(recorder)) == 800
    assert len({event["tid"] for event in spans(recorder)}) == 4
    names = {event["args"]["name"] for event in recorder.events() if event["name"] == "thread_name"}
    assert names == {f"worker-{at}" for at in range(4)}


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "trace.json"
    path.write_text("before")
    monkeypatch.setattr("pathlib.Path.write_bytes", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        TraceRecorder().write(path)
    assert path.read_text() == "before"
    assert [item.name for item in tmp_path.iterdir()] == ["trace.json"]


def test_written_files_have_the_permissions_of_new_files(tmp_path):
    TraceRecorder().write(tmp_path / "trace.json")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "trace.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_off_makes_nothing():
    assert OFF.span("a", "c", x=1) is OFF.span("b", "c")
    assert not OFF.enabled
    with OFF.span("a", "c"):
        OFF.instant("b", "c")
