"""`trace_document`: rows, times and what is left out."""

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from onnxgen.engine.stats import StepStats
from onnxgen.server.observe.ended import EndedRequest
from onnxgen.server.observe.observer import Observer
from onnxgen.server.observe.trace_document import trace_document


def _ended(began, ended, *, first=None, id="r"):
    return EndedRequest(
        request_id=id,
        endpoint="completions",
        model="m",
        stream=False,
        tenant="",
        outcome="ok",
        status=200,
        began_s=began,
        queued_s=None,
        first_s=first,
        ended_s=ended,
        prompt_tokens=None,
        cached_tokens=0,
        completion_tokens=2,
        finish_reasons=(),
        error=None,
    )


def _step(number, began, total=0.5):
    return StepStats(number, 2, 3, 1, 0, 0, 4, 0.1, 0.2, 0.1, total, began)


def _spans(document, *, pid, category):
    events = document["traceEvents"]
    return [e for e in events if e["ph"] == "X" and e["pid"] == pid and e["cat"] == category]


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 10)), max_size=12))
def test_requests_of_one_row_do_not_overlap(times):
    ended = [_ended(begin, begin + length, id=str(i)) for i, (begin, length) in enumerate(times)]
    document = trace_document(ended, [], {}, since_s=0.0, now_s=200.0)
    spans = _spans(document, pid=1, category="request")
    assert len(spans) == len(times)
    rows = {}
    for span in spans:
        rows.setdefault(span["tid"], []).append((span["ts"], span["ts"] + span["dur"]))
    for row in rows.values():
        row.sort()
        assert all(end <= begin + 0.01 for (_, end), (begin, _) in itertools.pairwise(row))
    json.dumps(document, allow_nan=False)


def test_a_request_has_its_phases_and_numbers():
    document = trace_document([_ended(5.0, 8.0, first=6.0)], [], {}, since_s=4.0, now_s=9.0)
    (request,) = _spans(document, pid=1, category="request")
    assert (request["ts"], request["dur"], request["args"]["completion_tokens"]) == (1e6, 3e6, 2)
    phases = {s["name"]: (s["ts"], s["dur"]) for s in _spans(document, pid=1, category="phase")}
    assert phases == {"to the first token": (1e6, 1e6), "answer": (2e6, 2e6)}


def test_what_goes_on_lasts_until_now_and_what_is_old_is_left_out():
    clock = iter([7.0])
    observer = Observer(clock=lambda: next(clock))
    going_on = observer.begin(request_id="open", endpoint="e", model="m", stream=True, tenant="")
    document = trace_document(
        [_ended(1.0, 2.0)], [going_on], {"m": [_step(0, 1.0), _step(1, 6.5)]}, since_s=5.0, now_s=9.0
    )
    (request,) = _spans(document, pid=1, category="request")
    assert (request["args"]["request_id"], request["ts"], request["dur"]) == ("open", 2e6, 2e6)
    steps = [s for s in _spans(document, pid=2, category="step") if s["name"] == "step"]
    assert [s["args"]["step"] for s in steps] == [1]


def test_parts_of_a_step_lie_inside_of_it_and_engines_have_names():
    document = trace_document(
        [], [], {"a": [_step(0, 1.0)], "b": [_step(0, 1.0, total=0.4)]}, since_s=0.0, now_s=9.0
    )
    names = [e["args"]["name"] for e in document["traceEvents"] if e["ph"] == "M"]
    assert names == ["requests", "engine of a", "engine of b"]
    for pid in (2, 3):
        step, *parts = _spans(document, pid=pid, category="step")
        assert [p["name"] for p in parts] == ["plan", "execute", "sample"]
        for part in parts:
            assert step["ts"] <= part["ts"]
            assert part["ts"] + part["dur"] <= step["ts"] + step["dur"] + 0.01
