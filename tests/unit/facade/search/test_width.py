from __future__ import annotations

from onnxgen.facade.search.round_counts import RoundCounts
from onnxgen.facade.search.rounds.width import MAX_WIDTH, Cooldown, Round, Width


def seen(width: int, accepted: int, *, ms: float = 1.0, is_full: bool = True) -> Round:
    evaluated = min(accepted + 1, width)
    return Round(width, evaluated, accepted, accepted + 1, is_full, ms)


def test_a_fixed_width_learns_nothing():
    width = Width(fixed=5, lowest=0, counts=RoundCounts())
    for _ in range(9):
        width.learn(seen(5, 5))
    assert (width.now, width.lowest, width.throughput) == (5, 5, 0.0)


def test_a_width_grows_while_all_is_right_and_pays():
    counts = RoundCounts()
    width = Width(fixed=4, lowest=2, counts=counts)
    widths = []
    for _ in range(80):
        widths.append(width.now)
        width.learn(seen(width.now, width.now))
    assert widths[:6] == [2, 2, 3, 3, 3, 3]
    assert width.now == MAX_WIDTH
    assert counts.adaptive_k_increases == MAX_WIDTH - 2
    assert counts.adaptive_k_decreases == 0
    assert counts.adaptive_k_observations == 80
    assert width.throughput == MAX_WIDTH + 1


def test_a_width_that_costs_too_much_is_given_up_at_once_and_not_tried_again_soon():
    counts = RoundCounts()
    width = Width(fixed=4, lowest=2, counts=counts)
    for _ in range(2):
        width.learn(seen(2, 2))
    assert width.now == 3
    width.learn(seen(3, 3, ms=3.0))
    assert width.now == 2
    for _ in range(7):
        assert width.now == 2
        width.learn(seen(2, 2))
    assert width.now == 3
    assert (counts.adaptive_k_probes, counts.adaptive_k_decreases) == (2, 1)


def test_a_width_shrinks_where_little_is_right():
    counts = RoundCounts()
    width = Width(fixed=4, lowest=2, counts=counts)
    for _ in range(4):
        width.learn(seen(width.now, width.now))
    assert width.now == 3
    for _ in range(60):
        width.learn(seen(width.now, 0))
    assert width.now == 2
    assert counts.adaptive_k_decreases == counts.adaptive_k_increases > 0


def test_rounds_that_say_nothing_are_left_out():
    counts = RoundCounts()
    width = Width(fixed=4, lowest=2, counts=counts)
    for round_ in (seen(1, 1), seen(2, 2, is_full=False), seen(2, 2, ms=0.0), Round(2, 0, 0, 3, True, 1.0)):
        width.learn(round_)
    assert counts.adaptive_k_observations == 0


def test_three_wrong_rounds_of_the_lowest_width_pause():
    counts = RoundCounts()
    cooldown = Cooldown(enabled=True, counts=counts)
    for accepted in (0, 0, 1, 0, 0):
        cooldown.learn(seen(2, accepted), lowest=2)
        assert not cooldown.remaining
    cooldown.learn(seen(3, 0), lowest=2)
    for _ in range(3):
        assert not cooldown.remaining
        cooldown.learn(seen(2, 0), lowest=2)
    assert cooldown.remaining == 1
    cooldown.step()
    assert (cooldown.remaining, counts.cooldown_entries, counts.cooldown_steps) == (0, 1, 1)
    other = Cooldown(enabled=False, counts=counts)
    for _ in range(5):
        other.learn(seen(2, 0), lowest=2)
    assert not other.remaining
