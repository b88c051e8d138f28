"""`trace_document`: requests and engine steps of the last seconds, as https://ui.perfetto.dev shows them.

One process for the requests of the server, with a row for each that overlaps with others, and one for each engine, whose
row of steps has what a step did in its arguments. Times are of one clock: `time.perf_counter` of this machine.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onnxgen.engine.stats import StepStats
from onnxgen.server.observe.ended import EndedRequest
from onnxgen.server.observe.listener import OpenRequest
from onnxgen.server.observe.request_log import request_fields

_REQUESTS = 1
_FIRST_ENGINE = 2

Event = dict[str, Any]


def trace_document(
    ended: Iterable[EndedRequest],
    going_on: Iterable[OpenRequest],
    steps: Mapping[str, Sequence[StepStats]],
    *,
    since_s: float,
    now_s: float,
) -> dict[str, Any]:
    """A trace in the Trace Event Format; its times begin with 0 at ``since_s``.

    Args:
        ended: Requests that have ended.
        going_on: Requests that have not.
        steps: Of each model's engine.
        since_s: What ended before is left out; a reading of the clock.
        now_s: A reading of the clock.
    """
    spans = [(each.began_s, each.ended_s, each) for each in ended if each.ended_s >= since_s]
    spans += [(each.began_s, now_s, each) for each in going_on]
    spans.sort(key=lambda span: span[0])
    events = [_name("process_name", "requests", pid=_REQUESTS)]
    rows: list[float] = []  # when each row is free again
    for began, end, request in spans:
        row = next((i for i, free in enumerate(rows) if free <= began), len(rows))
        rows[row : row + 1] = [end]
        events += _request_events(request, began, end, row=row, since_s=since_s)
    for pid, (model, all_steps) in enumerate(steps.items(), start=_FIRST_ENGINE):
        events.append(_name("process_name", f"engine of {model}", pid=pid))
        for step in all_steps:
            if step.began_s + step.total_s >= since_s:
                events += _step_events(step, pid=pid, since_s=since_s)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _request_events(
    request: EndedRequest | OpenRequest, began: float, end: float, *, row: int, since_s: float
) -> list[Event]:
    if isinstance(request, EndedRequest):
        args: dict[str, Any] = request_fields(request)
    else:
        args = {
            "request_id": request.request_id,
            "endpoint": request.endpoint,
            "model": request.model,
            "completion_tokens": request.completion_tokens,
        }
    where = {"pid": _REQUESTS, "tid": row + 1}
    events = [_span(f"{request.endpoint} {request.request_id}", "request", began, end, since_s, args, where)]
    first = request.first_s
    if first is not None:
        events.append(_span("to the first token", "phase", began, first, since_s, {}, where))
        events.append(_span("answer", "phase", first, end, since_s, {}, where))
    return events


def _step_events(step: StepStats, *, pid: int, since_s: float) -> list[Event]:
    end = step.began_s + step.total_s
    args = {
        "step": step.number,
        "sequences": step.num_seqs,
        "prefill_tokens": step.prefill_tokens,
        "decode_tokens": step.decode_tokens,
        "draft_tokens": step.draft_tokens,
        "preempted": step.preempted,
        "waiting": step.waiting,
    }
    where = {"pid": pid, "tid": 1}
    planned = step.began_s + step.plan_s
    executed = planned + step.execute_s
    events = [_span("step", "step", step.began_s, end, since_s, args, where)]
    for name, begin, finish in (
        ("plan", step.began_s, planned),
        ("execute", planned, executed),
        ("sample", executed, executed + step.sample_s),
    ):
        events.append(_span(name, "step", begin, min(finish, end), since_s, {}, where))
    counts = {"running": step.num_seqs, "waiting": step.waiting}
    events.append(
        {"ph": "C", "name": "sequences", "ts": _us(step.began_s, since_s), "pid": pid, "args": counts}
    )
    return events


def _span(
    name: str,
    category: str,
    begin: float,
    end: float,
    since_s: float,
    args: Mapping[str, Any],
    where: Mapping[str, int],
) -> Event:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "ts": _us(begin, since_s),
        "dur": round(1e6 * max(0.0, end - begin), 3),
        **where,
        "args": dict(args),
    }


def _name(kind: str, name: str, *, pid: int) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": 0, "args": {"name": name}}


def _us(at_s: float, since_s: float) -> float:
    """Microseconds since the beginning; what began before is at a negative time."""
    return round(1e6 * (at_s - since_s), 3)
