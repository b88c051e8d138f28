"""What guessing is thought to take: the middle of the latest times, without the first."""

import time

import numpy as np
import pytest

from onnxgen.engine.speculation.asking import AskedProposer
from onnxgen.engine.speculation.base import Draft, Wanted


class Slow:
    """Guesses of two tokens that take so long by the clock."""

    name, needs_hidden_states = "slow", False

    def __init__(self, clock, seconds):
        self._clock, self._seconds = clock, iter(seconds)

    def propose(self, wanted):
        self._clock[0] += next(self._seconds)
        return [Draft((1, 2)) for _ in wanted]

    def forget(self, key):
        pass

    def close(self):
        pass


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([30.0], 0.0),  # the first waits for the compiler
        ([30.0, 0.2], 0.1),
        ([30.0, 0.2, 0.2, 50.0, 0.2], 0.1),  # one that stalled
        ([30.0, *[0.2] * 9, *[2.0] * 9], 1.0),  # what is so from now on
    ],
)
def test_the_middle_of_the_latest_times_counts(monkeypatch, seconds, expected):
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    asked = AskedProposer("heads", Slow(clock, seconds), num_tokens=10)
    wanted = Wanted(key=1, history=np.arange(4), num_tokens=2, row=None)
    for _ in seconds:
        (draft,) = asked.propose([wanted])
        assert draft.tokens == (1, 2)
    assert asked.seconds_per_token == pytest.approx(expected)
    assert asked.stats().draft_s == pytest.approx(sum(seconds))


class Says:
    """Proposes one draft, whatever it is."""

    name, needs_hidden_states = "says", False

    def __init__(self, draft):
        self._draft = draft

    def propose(self, wanted):
        return [self._draft]


def ask(draft):
    """What comes of a draft, and how many failures it counts as."""
    asked = AskedProposer("heads", Says(draft), num_tokens=10)
    (found,) = asked.propose([Wanted(key=1, history=np.arange(4), num_tokens=3, row=None)])
    return found, asked.stats().failures


ONE = (np.array([1, 2]), np.array([0.5, 0.5]))


@pytest.mark.parametrize(
    "draft",
    [
        Draft((2.0, 3)),
        Draft(("a",)),
        Draft((None,)),
        "no draft",
        Draft((1, 2), [ONE]),
        Draft((1,), [ONE, ONE]),
        Draft((1,), [(np.array([1, 2]), np.array([1.0]))]),
        Draft((1,), [(np.array([[1]]), np.array([[1.0]]))]),
        Draft((1,), [(np.array([1.0]), np.array([1.0]))]),
        Draft((1,), [(1, 1.0)]),
        Draft((1,), [()]),
    ],
)
def test_what_is_no_draft_counts_as_a_failure_and_reaches_nobody(draft):
    assert ask(draft) == (None, 1)


def test_tokens_of_any_whole_number_are_taken_as_far_as_they_are_tokens():
    found, failures = ask(Draft(tuple(np.array([3, 4, 99, 5])), [ONE] * 4, kind=2))
    assert failures == 0
    assert (found.tokens, len(found.distributions), found.kind) == ((3, 4), 2, 2)
    assert all(type(token) is int for token in found.tokens)
    assert ask(Draft(())) == (None, 0)
