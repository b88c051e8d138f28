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
