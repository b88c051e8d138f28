"""Conversations that the server keeps: whose they are, their limits, and turns."""

import random
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxgen.server.errors import ApiError
from onnxgen.server.sessions.json_values import memory_of
from onnxgen.server.sessions.session import SessionLimits
from onnxgen.server.sessions.store import MAX_ID_BYTES, SessionStore


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def said(text):
    return {"role": "user", "content": text}


def answered(text):
    return {"role": "assistant", "content": text}


def store_of(*, clock=None, **limits):
    return SessionStore(SessionLimits(**limits), now=clock or Clock())


def say(session, text, reply="ok"):
    with session.turn([said(text)]) as turn:
        turn.remember(answered(reply), token_count=7)


def refused(call, *args):
    with pytest.raises(ApiError) as caught:
        call(*args)
    return caught.value


def test_turns_go_on_with_the_conversation():
    session = store_of().create("t")
    say(session, "one", "1")
    with session.turn([said("two")]) as turn:
        assert turn.messages == [said("one"), answered("1"), said("two")]
        turn.remember(answered("2"))
    assert session.messages == [said("one"), answered("1"), said("two"), answered("2")]
    assert (session.turns, session.token_count, session.message_count) == (2, 7, 4)


def test_a_turn_that_fails_leaves_the_conversation_as_it_was():
    session = store_of().create("t")
    say(session, "one")
    before = session.messages
    with pytest.raises(ZeroDivisionError), session.turn([said("two")]):
        raise ZeroDivisionError
    assert session.messages == before
    assert not session.in_use


def test_what_is_given_and_what_is_kept_are_copies():
    session = store_of().create("t")
    sent = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
    with session.turn(sent) as turn:
        turn.messages[0]["content"][0]["text"] = "changed"
        turn.remember(answered("b"))
    sent[0]["content"][0]["text"] = "changed"
    session.messages[0]["content"][0]["text"] = "changed"
    assert session.messages[0]["content"] == [{"type": "text", "text": "a"}]


def test_two_requests_at_once_are_a_conflict():
    session = store_of().create("t")
    with session.turn([said("one")]):
        error = refused(session.turn([said("two")]).__enter__)
        assert (error.status, error.code) == (409, "session_busy")
        assert session.in_use
    say(session, "three")
    assert [m["content"] for m in session.messages] == ["three", "ok"]


def test_a_turn_that_ended_early_leaves_the_conversation_to_the_next():
    session = store_of().create("t")
    with session.turn([said("one")]) as first:
        first.remember(answered("1"))
        first.end()
        assert not first.is_open
        with session.turn([said("two")]):
            first.end()
            assert session.in_use
        assert not session.in_use
    assert not session.in_use


def test_an_unknown_id_begins_a_conversation_and_a_known_one_is_the_same():
    store = store_of()
    first = store.open("mine", "t")
    assert store.open("mine", "t") is first is store.find("mine", "t")
    assert len(store) == 1


def test_tenants_do_not_see_each_other():
    store = store_of()
    say(store.open("same", "a"), "secret")
    assert store.open("same", "b").messages == []
    other = store.create("a")
    assert refused(store.find, other.id, "b").status == 404
    assert refused(store.delete, other.id, "b").status == 404
    assert [s.id for s in store.sessions("b")] == ["same"]
    assert len(store.sessions()) == 3


@pytest.mark.parametrize("bad", ["", "x" * (MAX_ID_BYTES + 1), "a b", "tab\t", "line\n", "é", "\x7f"])
def test_an_id_that_no_header_can_hold_is_refused(bad):
    store = store_of()
    assert refused(store.open, bad, "t").status == 400
    assert len(store) == 0


def test_ids_as_long_as_may_be_are_taken():
    assert store_of().open("~" * MAX_ID_BYTES, "t").id == "~" * MAX_ID_BYTES


def test_ids_that_the_store_makes_are_long_and_never_the_same():
    store = store_of(max_sessions=500)
    ids = {store.create("t").id for _ in range(500)}
    assert len(ids) == 500
    assert all(re.fullmatch(r"sess-[\w-]{32}", found) for found in ids)


def test_deleting_during_a_turn_lets_it_end_and_forgets_it():
    store = store_of()
    session = store.create("t")
    with session.turn([said("one")]) as turn:
        store.delete(session.id, "t")
        turn.remember(answered("1"))
    assert len(store) == 0
    assert store.open(session.id, "t").messages == []


def test_what_nobody_goes_on_with_is_forgotten():
    clock = Clock()
    store = store_of(clock=clock, idle_s=60)
    old, used = store.create("t"), store.create("t")
    clock.now += 50
    say(used, "one")
    assert store.expires_at(used) == clock.now + 60
    clock.now += 30
    assert store.sessions("t") == [used]
    assert refused(store.find, old.id, "t").status == 404
    clock.now += 60
    assert len(store) == 0


def test_a_long_answer_is_not_idle():
    clock = Clock()
    store = store_of(clock=clock, idle_s=60)
    session = store.create("t")
    with session.turn([said("one")]) as turn:
        clock.now += 1000
        assert len(store) == 1
        turn.remember(answered("1"))
    clock.now += 59
    assert store.find(session.id, "t").messages[-1] == answered("1")


def test_without_an_idle_time_nothing_is_forgotten():
    clock = Clock()
    store = store_of(clock=clock, idle_s=None)
    session = store.create("t")
    clock.now += 1e9
    assert store.find(session.id, "t") is session
    assert store.expires_at(session) is None


def test_the_one_used_longest_ago_makes_room():
    store = store_of(max_sessions=3)
    a, b, c = (store.create("t") for _ in range(3))
    say(a, "again")
    d = store.create("t")
    assert store.sessions("t") == [d, a, c]
    assert refused(store.find, b.id, "t").status == 404


def test_who_keeps_most_makes_room():
    store = store_of(max_sessions=4)
    modest = store.create("modest")
    for _ in range(20):
        store.create("greedy")
    assert store.find(modest.id, "modest") is modest
    assert len(store.sessions("greedy")) == 3


def test_one_in_use_is_never_forgotten_for_another():
    store = store_of(max_sessions=2)
    a, b = store.create("t"), store.create("t")
    with a.turn([said("one")]), b.turn([said("two")]):
        error = refused(store.open, "third", "t")
        assert (error.status, error.code, error.headers["Retry-After"]) == (429, "sessions_full", "1")
        assert len(store) == 2
    store.open("third", "t")
    assert len(store) == 2


def test_bytes_are_bounded_too():
    store = store_of(max_bytes=10_000)
    for number in range(20):
        say(store.create("t"), "x" * 300, str(number))
        assert store.size_bytes <= 10_000
    kept = [s.messages[-1]["content"] for s in store.sessions("t")]
    assert kept == [str(n) for n in range(19, 19 - len(kept), -1)]
    assert len(kept) > 5


def test_one_conversation_that_is_too_large_is_refused_when_it_goes_on():
    store = store_of(max_bytes=4000)
    session = store.create("t")
    error = refused(session.turn([said("x" * 2001)]).__enter__)
    assert (error.status, error.code) == (413, "session_too_large")
    assert not session.in_use
    assert refused(store.create, "t", [said("x" * 2001)]).status == 413
    assert len(store) == 1
    say(session, "short", "y" * 2001)
    assert refused(session.turn([said("more")]).__enter__).status == 413


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(800, 5000))
def test_limits_hold_whatever_happens(seed, max_sessions, max_bytes):
    draw, clock = random.Random(seed), Clock()
    store = store_of(clock=clock, max_sessions=max_sessions, max_bytes=max_bytes, idle_s=50)
    open_turns = []
    for _ in range(40):
        clock.now += draw.choice([0, 1, 30])
        tenant = draw.choice("ab")
        try:
            match draw.randrange(4):
                case 0:
                    store.create(tenant)
                case 1:
                    session = store.open(draw.choice("xyz"), tenant)
                    turn = session.turn([said("m" * draw.randrange(150))])
                    turn.__enter__()
                    open_turns.append((session, turn))
                case 2 if open_turns:
                    _, turn = open_turns.pop(draw.randrange(len(open_turns)))
                    turn.remember(answered("r" * draw.randrange(100)))
                    turn.__exit__(None, None, None)
                case _:
                    for session in store.sessions(tenant)[:1]:
                        store.delete(session.id, tenant)
        except ApiError as error:
            assert error.status in (409, 413, 429)
        kept = store.sessions()
        assert len(kept) == len(store) <= max_sessions
        assert store.size_bytes == sum(memory_of(s.messages) - sys.getsizeof(s.messages) for s in kept)
        idle = [s for s in kept if not s.in_use]
        assert store.size_bytes <= max_bytes or len(idle) <= 1
    for session, turn in open_turns:
        turn.__exit__(None, None, None)
        assert not session.in_use
