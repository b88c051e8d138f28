"""How many tokens of drafts are worth computing, on machines whose steps take what a formula says."""

import random

import pytest

from onnxgen.engine.speculation.acceptance_rates import AcceptanceRates
from onnxgen.engine.speculation.control import DraftLengths, Offer
from onnxgen.engine.speculation.step_times import StepTimes

SEED = random.SystemRandom().randrange(1 << 32)


def learned(seconds, rows, *, rounds=30, noise=0.0):
    """Lengths of an engine whose steps took so long."""
    rng = random.Random(SEED)
    lengths = DraftLengths()
    for _ in range(rounds):
        for count in rows:
            lengths.observe(rows=count, seconds=seconds(count) * (1 + noise * rng.uniform(-1, 1)))
    return lengths


def offer(chance, length=8):
    return Offer([chance**n for n in range(1, length + 1)])


def test_rows_that_cost_nothing_are_all_computed():
    lengths = learned(lambda rows: 1.0, range(1, 10))
    assert lengths.choose([offer(0.9)], num_seqs=1, rows=1) == [8]


def test_rows_that_cost_a_step_each_are_not_computed():
    lengths = learned(lambda rows: float(rows), range(1, 10))
    assert lengths.choose([offer(0.9)], num_seqs=1, rows=1) == [0]


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_as_many_as_pay(noise):
    print("seed", SEED)
    lengths = learned(lambda rows: 1 + 0.2 * (rows - 1), range(1, 10), rounds=200, noise=noise)
    (length,) = lengths.choose([offer(0.7)], num_seqs=1, rows=1)
    best = max(range(9), key=lambda k: (1 + sum(0.7**n for n in range(1, k + 1))) / (1 + 0.2 * k))
    assert abs(length - best) <= 1 + 2 * (noise > 0)


def test_steps_that_weights_are_read_for_once_have_an_edge():
    """Eight rows cost what one does, and the ninth as much again."""
    lengths = learned(lambda rows: 1 + (rows - 1) // 8, range(1, 18))
    assert lengths.choose([offer(0.95, 16)], num_seqs=1, rows=1) == [7]


def test_in_a_full_batch_only_sure_tokens_are_computed():
    lengths = learned(lambda rows: 1 + 0.08 * rows, range(16, 40))
    offers = [offer(0.98), *[offer(0.2) for _ in range(15)]]
    found = lengths.choose(offers, num_seqs=16, rows=16)
    assert found[0] == 8
    assert found[1:] == [0] * 15


def test_guessing_that_takes_long_makes_drafts_shorter():
    lengths = learned(lambda rows: 1.0, range(1, 10))
    found = [
        lengths.choose([Offer([0.8**n for n in range(1, 9)], seconds_per_token=cost)], num_seqs=1, rows=1)[0]
        for cost in (0.0, 0.2, 2.0)
    ]
    assert found[0] == 8 > found[1] > found[2] == 0


@pytest.mark.parametrize("chance", [0.5, 0.9, 1.0])
def test_states_that_go_back_make_only_wrong_drafts_dearer(chance):
    lengths = []
    for rows_twice in (False, True):
        control = DraftLengths(rows_twice=rows_twice)
        for _ in range(30):
            for rows in range(1, 20):
                control.observe(rows=rows, seconds=1 + 0.15 * (rows - 1))
        lengths.append(control.choose([offer(chance)], num_seqs=1, rows=1)[0])

    def rate(k):
        again = sum((n + 1) * (chance**n - chance ** (n + 1)) for n in range(k))
        return sum(chance**n for n in range(k + 1)) / (1 + 0.15 * (k + again))

    assert lengths[1] == pytest.approx(max(range(9), key=rate), abs=1)
    assert lengths[1] <= lengths[0]
    assert chance < 1 or lengths == [8, 8]


def test_what_was_slow_long_ago_is_tried_again():
    times = StepTimes()
    for _ in range(5):
        times.observe(1, 1.0)
        times.observe(2, 3.0)
    slow = times.relative(2) / times.relative(1)
    for _ in range(20_000):
        times.observe(1, 1.0)
    assert slow > 2.0
    assert times.relative(2) / times.relative(1) < 1.2


def test_a_slower_machine_changes_all_rows_alike():
    times = StepTimes()
    for _ in range(50):
        times.observe(1, 1.0)
        times.observe(4, 1.5)
    for _ in range(50):
        times.observe(1, 10.0)
    assert times.relative(4) / times.relative(1) == pytest.approx(1.5, rel=0.2)
    assert times.seconds(4) == pytest.approx(15.0, rel=0.25)


def test_one_stalled_step_is_not_believed():
    times = StepTimes()
    for _ in range(50):
        times.observe(1, 1.0)
        times.observe(4, 1.5)
    times.observe(4, 500.0)
    assert times.relative(4) / times.relative(1) < 2.0


def test_a_stall_of_the_first_step_with_so_many_rows_does_not_rule_them_out():
    times = StepTimes()
    for _ in range(20):
        times.observe(1, 1.0)
    times.observe(4, 10.0)
    for _ in range(2):
        times.observe(1, 1.0)
        times.observe(4, 1.2)
    assert times.relative(4) / times.relative(1) < 1.7


def test_chances_follow_what_was_accepted():
    rates = AcceptanceRates(memory=24)
    assert rates.chances(0, 2) == pytest.approx([0.3, 0.18])
    for _ in range(40):
        rates.observe(0, proposed=8, accepted=8)
        rates.observe(1, proposed=8, accepted=0)
    assert rates.chances(0, 8)[-1] > 0.6
    assert rates.chances(1, 1)[0] < 0.1
    assert rates.chances(2, 1) == [0.3], "of another kind nothing is known"
    for _ in range(40):
        rates.observe(0, proposed=8, accepted=0)
    assert rates.chances(0, 1)[0] < 0.3


def test_what_came_behind_a_draft_says_how_long_the_next_may_be():
    """Drafts of one token say nothing about a second: what the text was like does."""
    everyone = AcceptanceRates(memory=256)
    copied, other = (AcceptanceRates(memory=24, others=everyone) for _ in range(2))
    unknown = copied.chances(0, 2)
    copied.observe(0, proposed=1, accepted=1)
    assert copied.chances(0, 2)[1] / copied.chances(0, 2)[0] == pytest.approx(unknown[1] / unknown[0])
    for _ in range(10):
        copied.observe_further(0, right=7, wrong=False)
    first, second = copied.chances(0, 2)
    assert second > 0.9 * first
    assert other.chances(0, 2)[1] > 0.8 * other.chances(0, 2)[0], "others learn from it"
    for _ in range(20):
        copied.observe_further(0, right=0, wrong=True)
    first, second = copied.chances(0, 2)
    assert second < 0.6 * first


def test_a_new_sequence_begins_with_what_is_known_of_others():
    everyone = AcceptanceRates(memory=256)
    one = AcceptanceRates(memory=24, others=everyone)
    for _ in range(50):
        one.observe(3, proposed=4, accepted=4)
    another = AcceptanceRates(memory=24, others=everyone)
    assert another.chances(3, 4)[-1] > 0.7
