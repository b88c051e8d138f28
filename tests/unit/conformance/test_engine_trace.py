"""The checker accepts a run in which everything happens once, and names the rule that each change to it breaks."""

import json

import pytest

from onnxgen.conformance.engine_trace import RULES, check_trace
from onnxgen.engine.trace import EngineTrace
from onnxgen.kvcache.base import Copy
from onnxgen.kvcache.tiers import Piece

A, B, C, D = 0, 1, 2, 3
"""Sequences: A computes a prompt, B begins like it, C forks off B, D comes late and gives way."""


def write_run(path):
    """Two requests that share a prefix, a fork, a step that fails, and a sequence that gives way twice."""
    trace = EngineTrace(path, num_blocks=8, block_size=4, max_seqs=3, max_step_tokens=12, chunk_tokens=8)
    trace.submit(0, A, [1, 2, 3, 4, 5, 6])
    trace.admit(A, 0, [])
    step(trace, [(A, 0, [1, 2, 3, 4, 5, 6], [0, 1], [])])
    trace.sample([(A, 7)])
    # B goes on from A's first block, and from two positions of its second one, which it copies
    trace.submit(1, B, [1, 2, 3, 4, 5, 6, 9, 9], samples=2)
    trace.admit(B, 6, [0])
    step(trace, [(A, 6, [7], [0, 1], []), (B, 6, [9, 9], [0, 2], [Copy(1, 2, 2)])])
    trace.fork(B, C, 1, 8, [0, 2])
    trace.sample([(A, 8), (B, 10), (C, 11)])
    # the step fails; alone, A and C succeed, and B, which is at fault, ends
    reserve(trace, A, 7, 1, [0, 1])
    reserve(trace, B, 8, 1, [0, 2, 3])
    reserve(trace, C, 8, 1, [0, 2, 4])
    trace.execute([(A, 7, [8]), (B, 8, [10]), (C, 8, [11])])
    trace.failed("all of it")
    for seq, length, token, blocks in ((A, 7, 8, [0, 1]), (C, 8, 11, [0, 2, 4])):
        trace.execute([(seq, length, [token])])
        trace.executed()
        trace.commit(seq, length + 1, blocks)
    trace.execute([(B, 8, [10])])
    trace.failed("B")
    trace.rollback(B)
    trace.release(B)
    trace.finish(1, 0, "error")
    trace.sample([(A, 12), (C, 13)])
    # D gives way twice: its blocks are saved, then its content is computed again
    trace.submit(2, D, [20, 21, 22, 23, 24])
    trace.admit(D, 0, [])
    step(trace, [(A, 8, [12], [0, 1, 5], []), (C, 9, [13], [0, 2, 4], []), (D, 0, [20, 21, 22, 23], [6], [])])
    trace.sample([(A, 14), (C, 15)])
    trace.swap_out(100, [Piece(6, 4)])
    trace.preempt(D, "swap")
    step(trace, [(A, 9, [14], [0, 1, 5], [])])
    trace.sample([(A, 16)])
    trace.swap_in(100, [Piece(7, 4)])
    trace.resume(D, 4, [7])
    step(trace, [(A, 10, [16], [0, 1, 5], []), (D, 4, [24], [7, 6], [])])
    trace.sample([(A, 17), (D, 25)])
    trace.release(A)
    trace.finish(0, 0, "stop")
    trace.preempt(D, "recompute")
    step(trace, [(C, 10, [15], [0, 2, 4], [])])
    trace.sample([(C, 18)])
    trace.release(C)
    trace.finish(1, 1, "length")
    trace.resume(D, 0, [])
    step(trace, [(D, 0, [20, 21, 22, 23, 24, 25], [3, 1], [])])
    trace.sample([(D, 26)])
    trace.usage(used=2, cached=4, free=2)
    trace.release(D)
    trace.finish(2, 0, "cancelled")
    trace.usage(used=0, cached=6, free=2)
    trace.close()


def reserve(trace, seq, context_len, num_tokens, blocks, copies=()):
    trace.reserve(seq, context_len, num_tokens, blocks, copies=copies)


def step(trace, parts):
    for seq, context_len, tokens, blocks, copies in parts:
        reserve(trace, seq, context_len, len(tokens), blocks, copies)
    trace.execute([(seq, context_len, tokens) for seq, context_len, tokens, _, _ in parts])
    trace.executed()
    for seq, context_len, tokens, blocks, _ in parts:
        trace.commit(seq, context_len + len(tokens), blocks)


@pytest.fixture
def run(tmp_path):
    write_run(tmp_path / "trace")
    return [json.loads(line) for line in (tmp_path / "trace").read_text("utf-8").splitlines()]


def rules_of(events, **options):
    return {v.rule for v in check_trace([json.dumps(e) for e in events], **options).violations}


def renumbered(events):
    return [event | {"n": number} for number, event in enumerate(events)]


def find(events, kind, *, nth=0, **fields):
    """Where the ``nth`` event of a kind with such fields stands."""
    hits = [i for i, e in enumerate(events) if e["event"] == kind and fields.items() <= e.items()]
    return hits[nth]


def change(kind, *, nth=0, where=None, **new):
    def mutate(events):
        at = find(events, kind, nth=nth, **(where or {}))
        return [*events[:at], events[at] | new, *events[at + 1 :]]

    return mutate


def drop(kind, *, nth=0, **where):
    def mutate(events):
        at = find(events, kind, nth=nth, **where)
        return renumbered([*events[:at], *events[at + 1 :]])

    return mutate


def double(kind, *, nth=0, **where):
    def mutate(events):
        at = find(events, kind, nth=nth, **where)
        return renumbered([*events[: at + 1], *events[at:]])

    return mutate


def insert(before, event, *, nth=0, **where):
    def mutate(events):
        at = find(events, before, nth=nth, **where)
        return renumbered([*events[:at], event, *events[at:]])

    return mutate


def swap_with_next(kind, *, nth=0, **where):
    def mutate(events):
        at = find(events, kind, nth=nth, **where)
        return renumbered([*events[:at], events[at + 1], events[at], *events[at + 2 :]])

    return mutate


MUTATIONS = {
    "another version": (change("open", version=2), "version"),
    "no first line": (lambda events: renumbered(events[1:]), "version"),
    "opened twice": (double("open"), "version"),
    "an unknown event": (change("finish", event="finsh"), "event"),
    "a field is missing": (
        lambda events: [
            {k: v for k, v in e.items() if k != "seq"} if e["event"] == "admit" else e for e in events
        ],
        "format",
    ),
    "a number is text": (change("commit", length="6"), "format"),
    "a line is lost": (lambda events: events[:9] + events[10:], "numbering"),
    "a line is there twice": (lambda events: events[:9] + events[8:], "numbering"),
    "time runs backwards": (
        lambda events: [e | {"t": 5.0 if e["n"] != 9 else 4.0} for e in events],
        "clock",
    ),
    "reserved without admission": (drop("admit", seq=A), "lifecycle"),
    "admitted twice": (double("admit", seq=A), "lifecycle"),
    "a request comes twice": (change("submit", where={"request": 1}, request=0), "lifecycle"),
    "executed without reservation": (drop("reserve", seq=A), "lifecycle"),
    "a stale part is executed again": (
        insert("sample", {"event": "execute", "parts": [[A, 0, [1, 2, 3, 4, 5, 6]]]}),
        "lifecycle",
    ),
    "committed without execution": (drop("execute"), "lifecycle"),
    "committed what failed": (
        change("rollback", event="commit", length=9, blocks=[0, 2, 3], window=[]),
        "lifecycle",
    ),
    "committed and rolled back": (
        insert("sample", {"event": "rollback", "seq": A}, nth=1),
        "lifecycle",
    ),
    "neither committed nor rolled back": (drop("commit", seq=A, nth=1), "lifecycle"),
    "rollback forgotten": (drop("rollback"), "lifecycle"),
    "preempted in the middle of a step": (
        insert("execute", {"event": "preempt", "seq": A, "mode": "swap"}),
        "lifecycle",
    ),
    "resumed without preemption": (drop("preempt"), "lifecycle"),
    "an event within a step": (swap_with_next("execute"), "lifecycle"),
    "released twice": (double("release", seq=B), "lifecycle"),
    "a fork of a sample that is not there": (change("fork", index=2), "lifecycle"),
    "the context is one token short": (change("reserve", where={"seq": A}, nth=1, context_len=5), "context"),
    "committed one token too many": (change("commit", where={"seq": A}, nth=1, length=8), "context"),
    "the whole prompt needs no computing": (change("admit", where={"seq": B}, cached=8), "context"),
    "a fork shares more than there is": (change("fork", length=9), "context"),
    "another token is fed": (
        change("execute", nth=1, parts=[[A, 6, [3]], [B, 6, [9, 9]]]),
        "tokens",
    ),
    "more is reserved than there are tokens": (change("reserve", where={"seq": A}, num_tokens=7), "tokens"),
    "a block beyond the pool": (change("reserve", where={"seq": A}, blocks=[0, 8]), "range"),
    "no block for a token": (change("reserve", where={"seq": A}, blocks=[0]), "range"),
    "a wrong prefix is taken for one's own": (
        change("submit", where={"request": 1}, prompt=[1, 2, 3, 5, 5, 6, 9, 9]),
        "content",
    ),
    "the prefix of another salt": (change("submit", where={"request": 1}, extra="'salt'"), "content"),
    "a longer hit than what is copied": (change("admit", where={"seq": B}, cached=7), "context"),
    "a hit on a block of another content": (change("admit", where={"seq": B}, blocks=[1]), "content"),
    "a copy is forgotten": (change("reserve", where={"seq": B}, copies=[]), "content"),
    "a copy is too short": (change("reserve", where={"seq": B}, copies=[[1, 2, 1, 0]]), "content"),
    "a saved block comes back as another": (change("swap_in", pieces=[[5, 4, 0]]), "sharing"),
    "a block comes back that was not saved": (change("swap_in", key=101), "content"),
    "a block comes back in part": (change("swap_in", pieces=[[7, 3, 0]]), "content"),
    "a block that could not be read back is used": (change("swap_in", event="swap_lost"), "content"),
    "a block comes back beyond the pool": (change("swap_in", pieces=[[8, 4, 0]]), "range"),
    "a resumed sequence reads blocks it gave up": (change("resume", nth=1, cached=4, blocks=[0]), "content"),
    "a block of another sequence is taken": (change("reserve", where={"seq": D}, blocks=[2]), "sharing"),
    "no copy before two sequences write a shared block": (
        change("reserve", where={"seq": B}, blocks=[0, 1], copies=[]),
        "collision",
    ),
    "a committed block is exchanged for one of other content": (
        change("commit", where={"seq": B}, blocks=[0, 1]),
        "content",
    ),
    "a committed block is lost": (change("commit", where={"seq": B}, blocks=[0]), "range"),
    "two sequences write one block": (change("reserve", where={"seq": C}, blocks=[0, 2, 3]), "collision"),
    "a block twice in a table": (change("reserve", where={"seq": A}, blocks=[1, 1]), "collision"),
    "a copy of what was never written": (change("reserve", where={"seq": B}, copies=[[5, 2, 2, 0]]), "copy"),
    "a copy to a block of somebody else": (
        change("reserve", where={"seq": B}, copies=[[1, 3, 2, 0]]),
        "copy",
    ),
    "too many sequences": (change("budgets", max_seqs=2), "budget"),
    "too many tokens": (change("budgets", max_step_tokens=5), "budget"),
    "too long a chunk": (change("budgets", chunk_tokens=5), "budget"),
    "no budgets": (drop("budgets"), "budget"),
    "a token without logits": (double("sample"), "sample"),
    "a token before the prompt is computed": (
        insert("swap_out", {"event": "sample", "tokens": [[D, 1]]}),
        "sample",
    ),
    "finished twice": (double("finish", request=0), "finish"),
    "never finished": (drop("finish", request=1, index=1), "finish"),
    "an unknown sample finishes": (change("finish", where={"request": 0}, index=1), "finish"),
    "goes on after its end": (
        insert("reserve", {"event": "finish", "request": 0, "index": 0, "reason": "stop"}, nth=1),
        "after_finish",
    ),
    "preempted for good": (
        lambda events: renumbered(
            [*events[: find(events, "resume", nth=1)], *events[find(events, "usage", nth=1) :]]
        ),
        "lost",
    ),
    "never released": (drop("release", seq=C), "leak"),
    "blocks are left at the end": (change("usage", nth=1, used=1, free=1), "leak"),
    "the engine's books are off": (change("usage", used=3, free=1), "leak"),
    "the pool has lost a block": (change("usage", free=1), "leak"),
    "no shutdown": (drop("close"), "close"),
    "something after the shutdown": (
        lambda events: renumbered([*events, {"event": "finish", "request": 2, "index": 0, "reason": "stop"}]),
        "close",
    ),
}


def test_a_run_in_which_everything_happens_is_accepted(run):
    report = check_trace([json.dumps(event) for event in run])
    assert report.violations == ()
    assert report.num_lines == len(run)
    assert report.num_steps == sum(event["event"] == "executed" for event in run)
    assert report.events["fork"] == 1


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_change_to_the_run_breaks_the_rule_that_it_should(run, name):
    mutate, rule = MUTATIONS[name]
    changed = mutate(run)
    assert changed != run
    assert rule in rules_of(changed)


REPEATABLE = {"usage", "budgets", "swap_out", "swap_in"}
"""Events that may be missing or doubled without harm to anybody."""


def test_no_other_line_may_be_missing_or_doubled_even_if_the_numbers_fit(run):
    for at, event in enumerate(run):
        if event["event"] in REPEATABLE:
            continue
        assert rules_of(renumbered([*run[: at + 1], *run[at:]])), event
        if event["event"] != "sample" or goes_on(run[at:], {seq for seq, _ in event["tokens"]}):
            assert rules_of(renumbered([*run[:at], *run[at + 1 :]])), event


def goes_on(events, seqs):
    """Whether a step computes more of these sequences: nobody can miss a last token that was never fed."""
    return any(event["event"] == "reserve" and event["seq"] in seqs for event in events)


def test_every_rule_has_a_change_that_breaks_it():
    assert {rule for _, rule in MUTATIONS.values()} | {"starved"} == set(RULES)


def test_an_answer_that_waits_while_prompts_are_computed_is_starved(tmp_path):
    trace = EngineTrace(
        tmp_path / "t", num_blocks=8, block_size=4, max_seqs=2, max_step_tokens=8, chunk_tokens=8
    )
    trace.submit(0, A, [1])
    trace.admit(A, 0, [])
    step(trace, [(A, 0, [1], [0], [])])
    trace.sample([(A, 2)])
    trace.submit(1, B, [*range(10, 20)])
    trace.admit(B, 0, [])
    for at in range(4):
        step(trace, [(B, 2 * at, [10 + 2 * at, 11 + 2 * at], [1, 2], [])])
    trace.release(A)
    trace.release(B)
    trace.finish(0, 0, "cancelled")
    trace.finish(1, 0, "cancelled")
    trace.close()
    lines = (tmp_path / "t").read_text("utf-8").splitlines()
    assert check_trace(lines, starved_steps=4).violations == ()
    assert [v.rule for v in check_trace(lines, starved_steps=3).violations] == ["starved"]


def write_windowed(path, *, table):
    """Ten tokens that are seen through a window of five: block 0 is out of sight from token 8 on."""
    trace = EngineTrace(
        path,
        num_blocks=8,
        block_size=4,
        window=5,
        window_blocks=3,
        max_seqs=2,
        max_step_tokens=8,
        chunk_tokens=8,
    )
    trace.submit(0, A, [*range(10)])
    trace.admit(A, 0, [])
    for at, blocks, window in ((0, [0, 1], [0, 1]), (8, [0, 1, 2], table)):
        tokens = [*range(at, min(at + 8, 10))]
        trace.reserve(A, at, len(tokens), blocks, window)
        trace.execute([(A, at, tokens)])
        trace.executed()
        trace.commit(A, at + len(tokens), blocks, window)
    trace.release(A)
    trace.finish(0, 0, "cancelled")
    trace.close()


@pytest.mark.parametrize(
    ("table", "rules"),
    [
        ([0, 1, 2], set()),
        ([-1, 1, 0], set()),  # the block that no window reaches is used again
        ([-1, -1, 0], {"range"}),
        ([-1, 2, 0], {"content"}),
        ([-1, 1, 3], {"range"}),
        ([-1, 1, 1], {"collision"}),
    ],
)
def test_windowed_layers_have_what_their_window_reaches(tmp_path, table, rules):
    write_windowed(tmp_path / "t", table=table)
    found = {v.rule for v in check_trace((tmp_path / "t").read_text("utf-8").splitlines()).violations}
    assert found == rules or rules < found
    assert bool(found) == bool(rules)


def write_exact(path, *, context_len=4, copies=(), table=(0,)):
    """Two turns on a recurrent state: the second goes on from exactly what the first has left."""
    trace = EngineTrace(
        path, num_blocks=3, block_size=16, exact=True, max_seqs=2, max_step_tokens=16, chunk_tokens=16
    )
    trace.submit(0, A, [1, 2, 3, 4])
    trace.admit(A, 0, [])
    step(trace, [(A, 0, [1, 2, 3, 4], [0], [])])
    trace.release(A)
    trace.finish(0, 0, "cancelled")
    trace.submit(1, B, [1, 2, 3, 4, 5, 6])
    trace.admit(B, context_len, [0])
    step(trace, [(B, context_len, [1, 2, 3, 4, 5, 6][context_len:], table, copies)])
    trace.release(B)
    trace.finish(1, 0, "cancelled")
    trace.close()


@pytest.mark.parametrize(
    ("options", "rules"),
    [
        ({}, set()),
        ({"copies": [Copy(0, 1, 4)], "table": (1,)}, set()),
        ({"context_len": 0}, set()),
        ({"context_len": 3}, {"content"}),
        ({"table": (1,)}, {"content"}),
    ],
)
def test_a_recurrent_state_goes_on_from_exactly_what_it_holds(tmp_path, options, rules):
    write_exact(tmp_path / "t", **options)
    found = {v.rule for v in check_trace((tmp_path / "t").read_text("utf-8").splitlines()).violations}
    assert found == rules


def test_a_failing_step_leaves_nothing_to_rely_on_behind_what_was_committed(run):
    """Without its retry, A would go on from a position that the failed step has spoiled."""
    at = find(run, "execute", nth=3)
    assert run[at]["parts"] == [[A, 7, [8]]]
    kept = [*run[:at], {"event": "rollback", "seq": A}, *run[at + 3 :]]
    later = find(kept, "reserve", seq=A, context_len=8)
    found = rules_of(renumbered(kept[: later + 1]))
    assert "context" in found


def test_garbage_is_no_reason_to_fail(tmp_path):
    lines = ["", "{", "[]", "3", '{"n": 0}', '{"n": 0, "event": "open"}', '{"n": true, "event": "close"}']
    report = check_trace(lines)
    assert [v.line for v in report.violations if v.rule == "format"] == [1, 2, 3, 4, 5, 6, 7]
    assert check_trace([]).violations[0].rule == "close"
