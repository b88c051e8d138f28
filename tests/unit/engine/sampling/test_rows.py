"""Rows of sequences that come and go: each gets its token, or its own error, whoever is beside it."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.rows import RowSampler
from onnxgen.engine.sampling.state import RowState
from onnxgen.errors import BackendError, LogitsProcessorError

VOCAB = 1000


@dataclass
class Sequence:
    options: SamplingOptions
    tokens: list = field(default_factory=list)
    prompt_tokens: int = 0
    processors: tuple = ()
    sampler: Any = None
    row_state: RowState = field(default_factory=RowState)
    asked: int = 0

    @property
    def num_tokens(self):
        return len(self.tokens)

    @property
    def num_new_tokens(self):
        return len(self.tokens) - self.prompt_tokens

    @property
    def history(self):
        self.asked += 1
        return np.array(self.tokens, np.int64)


def choose(rows, logits, eos=()):
    return RowSampler(eos_ids=eos).choose(np.array(logits, np.float32).reshape(len(rows), -1), rows)


def fresh_rng():
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    return np.random.default_rng(seed)


def ban_even(history, row):
    row[::2] = -np.inf


def favour_last(history, row):
    row[history[-1]] += 3


def any_sequence(rng):
    options = SamplingOptions(
        temperature=float(rng.choice([0, 0.5, 1.0, 1.7])),
        top_k=int(rng.choice([0, 0, 1, 5, 400, 9999999])),
        top_p=float(rng.choice([0, 0.5, 0.95, 1.0])),
        repetition_penalty=float(rng.choice([1.0, 1.0, 0.7, 2.0])),
        presence_penalty=float(rng.choice([0.0, 1.5])),
        frequency_penalty=float(rng.choice([0.0, -0.5])),
        no_repeat_ngram_size=int(rng.choice([0, 0, 2])),
        min_length=int(rng.choice([0, 30])),
        seed=int(rng.integers(2**64, dtype=np.uint64)),
        stream=int(rng.integers(3)),
    )
    tokens = rng.integers(VOCAB, size=rng.integers(1, 60)).tolist()
    processors = (((),) * 3 + ((ban_even,), (favour_last, ban_even)))[rng.integers(5)]
    return Sequence(options, tokens, int(rng.integers(len(tokens) + 1)), processors)


def test_a_row_does_not_depend_on_its_neighbours_or_their_order():
    rng = fresh_rng()
    rows = [any_sequence(rng) for _ in range(40)]
    logits = rng.normal(scale=3, size=(40, VOCAB)).astype(np.float32)
    alone = [choose([row], own, eos=(7, 8))[0] for row, own in zip(rows, logits, strict=True)]
    sampler = RowSampler(eos_ids=(7, 8))
    for _ in range(20):
        crowd = rng.permutation(40)[: rng.integers(1, 41)].tolist()
        chosen = sampler.choose(logits[crowd], [rows[i] for i in crowd])
        assert chosen == [alone[i] for i in crowd]


def test_a_penalized_row_and_a_seeded_one_are_what_they_are_alone_in_both_orders():
    a = Sequence(SamplingOptions(repetition_penalty=2.0, seed=0), [1, 2])
    b = Sequence(SamplingOptions(top_k=1, seed=99), [3])
    row = np.arange(8) / 7
    alone = [choose([a], row)[0], choose([b], row)[0]]
    assert choose([a, b], [row, row]) == alone
    assert choose([b, a], [row, row]) == alone[::-1]


def test_histories_are_asked_for_only_where_something_looks_at_them():
    plain = SamplingOptions(temperature=1.0, top_p=0.9, min_length=9, seed=1)
    lazy = Sequence(plain, [1, 2])
    eager = [
        Sequence(replace(plain, repetition_penalty=1.1), [1]),
        Sequence(replace(plain, frequency_penalty=0.1), [1]),
        Sequence(replace(plain, no_repeat_ngram_size=1), [1]),
        Sequence(plain, [1], processors=(ban_even,)),
    ]
    choose([lazy, *eager], np.zeros((5, 20)), eos=(3,))
    assert lazy.asked == 0
    assert all(row.asked > 0 for row in eager)


def test_the_models_logits_are_not_changed():
    logits = np.ones((2, 8), np.float32)
    options = SamplingOptions(repetition_penalty=2.0, presence_penalty=1.0, min_length=9, seed=0)
    rows = [Sequence(options, [2, 3], processors=(ban_even,)), Sequence(options, [1])]
    RowSampler(eos_ids=(1,)).choose(logits, rows)
    np.testing.assert_array_equal(logits, 1)


def test_samples_of_one_request_share_a_seed_and_draw_apart():
    flat = np.zeros((8, 50_000))

    def draw():
        options = SamplingOptions(temperature=1.2, seed=7).for_samples(8)
        assert {o.seed for o in options} == {7}
        return choose([Sequence(o, [1]) for o in options], flat)

    first = draw()
    assert len(set(first)) == 8
    assert draw() == first
    fresh = SamplingOptions(temperature=1.0).for_samples(3)
    assert len({o.seed for o in fresh}) == 1
    assert [o.stream for o in fresh] == [0, 1, 2]
    assert [o.stream for o in SamplingOptions(stream=2**64 - 1).for_samples(2)] == [2**64 - 1, 0]


def test_without_a_seed_every_sequence_has_its_own():
    seeds = {SamplingOptions().with_seed().seed for _ in range(20)}
    assert len(seeds) == 20
    assert SamplingOptions(seed=0).with_seed().seed == 0


def test_a_seed_is_used_whole_and_a_sequence_does_not_draw_the_same_number_twice():
    flat = np.zeros((1, 50_000))
    options = SamplingOptions(temperature=1.0, seed=5)
    assert len({choose([Sequence(options, [0] * n)], flat)[0] for n in range(20)}) == 20
    other = replace(options, seed=2**32 + 5)
    assert choose([Sequence(options)], flat) != choose([Sequence(other)], flat)


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"top_p": 0.0}, {"top_k": 1}])
def test_these_options_take_the_best_token(options):
    rng = fresh_rng()
    row = rng.normal(size=500)
    greedy = SamplingOptions(**{"temperature": 5.0, **options}, seed=3)
    assert {choose([Sequence(greedy, [0] * n)], row)[0] for n in range(30)} == {int(row.argmax())}


@pytest.mark.parametrize("options", [{"top_k": 0}, {"top_k": 2**40}, {"top_p": 1.0}, {"top_k": 100}])
def test_options_that_are_off_leave_every_token(options):
    drawing = SamplingOptions(temperature=1.0, seed=3, **options)
    tokens = {choose([Sequence(drawing, [0] * n)], np.zeros(100))[0] for n in range(1500)}
    assert len(tokens) == 100


def test_presence_and_frequency_count_the_answer_and_not_the_prompt():
    seen = []

    def look(history, row):
        seen.append(row.copy())

    options = SamplingOptions(presence_penalty=0.5, frequency_penalty=0.25, seed=0)
    choose([Sequence(options, [7, 7, 7], prompt_tokens=3, processors=(look,))], np.zeros(10))
    choose([Sequence(options, [7, 9, 9], prompt_tokens=1, processors=(look,))], np.zeros(10))
    np.testing.assert_array_equal(seen[0], np.zeros(10))
    np.testing.assert_array_equal(seen[1], [0] * 9 + [-1.0])


def test_a_raising_processor_costs_its_own_row_only():
    def fail(history, row):
        row[:] = np.nan
        raise ZeroDivisionError("step 3")

    plain = SamplingOptions(seed=0)
    rows = [Sequence(plain), Sequence(plain, [1], processors=(ban_even, fail)), Sequence(plain)]
    first, error, last = choose(rows, np.tile(np.arange(9), (3, 1)))
    assert first == last == 8
    assert isinstance(error, LogitsProcessorError)
    assert "ZeroDivisionError" in str(error) and "step 3" in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_a_processor_that_returns_a_row_is_told_so():
    (error,) = choose([Sequence(SamplingOptions(seed=0), processors=(lambda h, row: row + 1,))], np.zeros(4))
    assert isinstance(error, LogitsProcessorError)
    assert "in place" in str(error)


def test_a_processor_cannot_change_the_tokens():
    def write(history, row):
        history[0] = 3

    (error,) = choose([Sequence(SamplingOptions(seed=0), [1], processors=(write,))], np.zeros(4))
    assert isinstance(error, LogitsProcessorError)


def test_a_processor_that_forbids_everything_is_told_so():
    def forbid(history, row):
        row[:] = -np.inf

    rows = [Sequence(SamplingOptions(temperature=t, seed=0), processors=(forbid,)) for t in (0.0, 1.0)]
    for error in choose(rows, np.zeros((2, 4))):
        assert isinstance(error, LogitsProcessorError)
        assert "left no token" in str(error)


def test_what_a_processor_forbids_stays_forbidden_when_the_rest_is_banned():
    def only_two(history, row):
        row[[0, 1, 3]] = -np.inf

    for temperature in (0.0, 1.0):
        options = SamplingOptions(temperature=temperature, no_repeat_ngram_size=1, seed=0)
        assert choose([Sequence(options, [0, 1, 2, 3], processors=(only_two,))], np.zeros(4)) == [2]


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_broken_row_has_an_error_and_its_neighbours_have_tokens(broken):
    logits = np.tile(np.arange(9.0), (3, 1))
    logits[1, 4] = broken
    for options in (SamplingOptions(seed=0), SamplingOptions(temperature=1e-9, top_p=0.9, seed=0)):
        first, error, last = choose([Sequence(options, [0] * 5)] * 3, logits)
        assert first == last == 8
        assert isinstance(error, BackendError)
        assert "token 4" in str(error) and "5 tokens" in str(error)


def test_a_step_without_rows_chooses_nothing():
    assert RowSampler(eos_ids=()).choose(np.empty((0, 9), np.float32), []) == []
