"""Reads a trace line by line: `check_trace`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from onnxgen.conformance.engine_trace.model import Violation, World
from onnxgen.conformance.engine_trace.replay import Replay

VERSION = 1

STARVED_STEPS = 16
"""A running answer may miss this many steps in a row that compute prompts."""

# kinds of values: a number, numbers, pairs, triples or quadruples of numbers, parts of a step
_FIELDS: dict[str, dict[str, str]] = {
    "open": {
        "version": "int",
        "num_blocks": "int",
        "block_size": "int",
        "window": "int?",
        "window_blocks": "int",
        "exact": "bool",
    },
    "budgets": {"max_seqs": "int", "max_step_tokens": "int", "chunk_tokens": "int"},
    "submit": {
        "request": "int",
        "seq": "int",
        "prompt": "ints",
        "samples": "int",
        "extra": "str?",
        "min_chunk_end": "int",
    },
    "admit": {"seq": "int", "cached": "int", "blocks": "ints", "window": "ints"},
    "restart": {
        "seq": "int",
        "extra": "str?",
        "min_chunk_end": "int",
        "cached": "int",
        "blocks": "ints",
        "window": "ints",
    },
    "resume": {"seq": "int", "cached": "int", "blocks": "ints", "window": "ints"},
    "fork": {
        "parent": "int",
        "child": "int",
        "index": "int",
        "runs": "bool",
        "length": "int",
        "blocks": "ints",
        "window": "ints",
    },
    "draft": {"seq": "int", "tokens": "ints"},
    "accepted": {"seq": "int", "tokens": "ints"},
    "reserve": {
        "seq": "int",
        "context_len": "int",
        "num_tokens": "int",
        "blocks": "ints",
        "window": "ints",
        "copies": "quadruples",
    },
    "execute": {"parts": "parts"},
    "executed": {},
    "failed": {"error": "str"},
    "commit": {"seq": "int", "length": "int", "blocks": "ints", "window": "ints"},
    "rollback": {"seq": "int"},
    "sample": {"tokens": "pairs"},
    "forced": {"seq": "int", "tokens": "ints"},
    "preempt": {"seq": "int", "mode": "str"},
    "swap_out": {"key": "int", "pieces": "triples"},
    "swap_in": {"key": "int", "pieces": "triples"},
    "swap_lost": {"key": "int", "pieces": "triples"},
    "finish": {"request": "int", "index": "int", "reason": "str"},
    "release": {"seq": "int"},
    "usage": {"used": "int", "cached": "int", "free": "int"},
    "close": {},
}


@dataclass(frozen=True, slots=True)
class TraceReport:
    """What a trace came to.

    Attributes:
        num_lines: Lines of the file.
        num_steps: Steps that the backend did.
        events: How many of each kind.
        violations: What was broken, in the order of the file.
    """

    num_lines: int
    num_steps: int
    events: dict[str, int]
    violations: tuple[Violation, ...]


def check_trace(lines: Iterable[str], *, starved_steps: int = STARVED_STEPS) -> TraceReport:
    """Replay a trace.

    Args:
        lines: Of the file.
        starved_steps: A running answer may miss this many steps in a row that compute prompts.
    """
    replay = Replay(starved_steps=starved_steps)
    world = replay.world
    events = Counter[str]()
    expected, now, number = 0, float("-inf"), 0
    for number, line in enumerate(lines, start=1):
        found = _read(line, number, world)
        if found is None:
            expected += 1
            continue
        if found["n"] != expected:
            world.note("numbering", f"event number {found['n']} stands where {expected} should", line=number)
        expected = found["n"] + 1
        if found.get("t", now) < now:
            world.note("clock", f"{found['t']} s comes after {now} s", line=number)
        now = found.get("t", now)
        events[found["event"]] += 1
        if found["event"] == "open" and found["version"] != VERSION:
            world.note(
                "version", f"the trace is of version {found['version']}; known is {VERSION}", line=number
            )
            break
        replay.follow(number, found["event"], found)
    replay.end(number)
    return TraceReport(number, replay.num_steps, dict(events), tuple(world.violations))


def _read(line: str, number: int, world: World) -> dict[str, Any] | None:
    """The fields of a line, or None after saying what is wrong with it."""
    try:
        found: Any = json.loads(line)
    except ValueError as error:
        return world.note("format", f"not JSON: {error}", line=number)
    if not isinstance(found, dict) or type(found.get("n")) is not int or type(found.get("event")) is not str:
        return world.note("format", "no JSON object with a number 'n' and an 'event'", line=number)
    fields = cast(dict[str, Any], found)
    wanted = _FIELDS.get(fields["event"])
    if wanted is None:
        return world.note("event", f"unknown event {fields['event']!r}", line=number)
    if type(fields.get("t", 0.0)) not in (float, int):
        return world.note("format", f"'t' of {fields['event']!r} is no number", line=number)
    for name, kind in wanted.items():
        if name not in fields or not _KINDS[kind](fields[name]):
            what = f"{fields[name]!r:.60}" if name in fields else "not there"
            return world.note(
                "format", f"{name!r} of {fields['event']!r} must be {kind}, is {what}", line=number
            )
    return fields


def _is_ints(value: Any) -> bool:
    return type(value) is list and {*map(type, cast(list[Any], value))} <= {int}


def _are_ints(value: Any, length: int) -> bool:
    return type(value) is list and all(_is_ints(v) and len(v) == length for v in cast(list[Any], value))


def _is_part(value: Any) -> bool:
    return (
        type(value) is list
        and len(cast(list[Any], value)) == 3
        and _is_ints(value[:2])
        and _is_ints(value[2])
    )


_KINDS: dict[str, Callable[[Any], bool]] = {
    "int": lambda v: type(v) is int,
    "int?": lambda v: v is None or type(v) is int,
    "bool": lambda v: type(v) is bool,
    "str": lambda v: type(v) is str,
    "str?": lambda v: v is None or type(v) is str,
    "ints": _is_ints,
    "pairs": lambda v: _are_ints(v, 2),
    "triples": lambda v: _are_ints(v, 3),
    "quadruples": lambda v: _are_ints(v, 4),
    "parts": lambda v: type(v) is list and all(map(_is_part, v)),
}  # fmt: skip
