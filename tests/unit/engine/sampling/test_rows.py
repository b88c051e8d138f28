"""Rows of sequences that come and go: each gets its token, or its own error, whoever is beside it."""

from dataclasses import replace

import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.engine.sampling.edits import BANNED
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.rows import RowSampler
from onnxgen.engine.sampling.state import RowState
from onnxgen.errors import BackendError, LogitsProcessorError, OptionError, TokenIdError
from sampled_sequences import SampledSequence
from token_masks import mask_of

VOCAB = 1000


def choose(rows, logits, eos=()):
    return RowSampler(eos_ids=eos).choose(np.array(logits, np.float32).reshape(len(rows), -1), rows)


def ban_even(history, row):
    row[::2] = -np.inf


def favour_last(history, row):
    row[history[-1]] += 3


class Sharpen:
    def process_rows(self, histories, logits):
        logits *= 2
        for history, row in zip(histories, logits, strict=True):
            row[history[-1]] -= 5


class SecondBest:
    def choose_rows(self, logits, rows):
        return np.argsort(-logits, axis=1, kind="stable")[:, 1]


SHARPEN, SECOND_BEST = Sharpen(), SecondBest()
PROCESSORS = [(), (), (), (ban_even,), (SHARPEN,), (favour_last, SHARPEN), (SHARPEN, ban_even)]


def any_sequence(rng):
    def pick(*values):
        return values[rng.integers(len(values))]

    tokens = rng.integers(VOCAB, size=rng.integers(1, 60))
    tokens = pick(tokens, tokens % 3).tolist()
    prompt_tokens = int(rng.integers(len(tokens) + 1))
    options = SamplingOptions(
        temperature=pick(0, 0.5, 1.0, 1.7),
        top_k=pick(0, 0, 1, 5, 400, 9999999),
        top_p=pick(0, 0.5, 0.95, 1.0),
        repetition_penalty=pick(1.0, 1.0, 0.7, 2.0),
        repetition_window=pick(0, 1, 7, 1000),
        presence_penalty=pick(0.0, 1.5),
        frequency_penalty=pick(0.0, -0.5),
        dry_multiplier=pick(0.0, 0.0, 0.8),
        dry_allowed_length=pick(1, 2),
        dry_window=pick(0, 5),
        dry_breakers=pick((), (1, 2)),
        no_repeat_ngram_size=pick(0, 0, 1, 2),
        min_length=pick(0, 30),
        bad_words=pick((), ((5,), (tokens[-1], 6), (*tokens, 7))),
        logit_bias=pick((), {3: 4.0, 5: -100.0, 9: -np.inf}),
        forced_tokens=pick((), (), {len(tokens) - prompt_tokens: 17}),
        seed=int(rng.integers(2**64, dtype=np.uint64)),
        stream=int(rng.integers(3)),
    )
    sampler = pick(None, None, None, SECOND_BEST)
    return SampledSequence(options, tokens, prompt_tokens, pick(*PROCESSORS), sampler)


def test_a_row_does_not_depend_on_its_neighbours_or_their_order():
    rng = fresh_rng()
    rows = [any_sequence(rng) for _ in range(40)]
    logits = rng.normal(scale=3, size=(40, VOCAB)).astype(np.float32)

    def sampler():
        return RowSampler(eos_ids=(7, 8), num_tokens=VOCAB - 9, unused_ids=(11, 12))

    before = logits.copy()
    # errors are rare: a sampler of a forced row, a word with an id that is no token
    alone = [str(sampler().choose(own[None], [row])[0]) for row, own in zip(rows, logits, strict=True)]
    assert sum(token.isdecimal() for token in alone) > 20
    together = sampler()
    for _ in range(20):
        crowd = rng.permutation(40)[: rng.integers(1, 41)].tolist()
        own = logits[crowd]
        assert list(map(str, together.choose(own, [rows[i] for i in crowd]))) == [alone[i] for i in crowd]
        np.testing.assert_array_equal(own, before[crowd])


def test_a_penalized_row_and_a_seeded_one_are_what_they_are_alone_in_both_orders():
    a = SampledSequence(SamplingOptions(repetition_penalty=2.0, seed=0), [1, 2])
    b = SampledSequence(SamplingOptions(top_k=1, seed=99), [3])
    row = np.arange(8) / 7
    alone = [choose([a], row)[0], choose([b], row)[0]]
    assert choose([a, b], [row, row]) == alone
    assert choose([b, a], [row, row]) == alone[::-1]


def test_histories_are_asked_for_only_where_something_looks_at_them():
    plain = SamplingOptions(temperature=1.0, top_p=0.9, min_length=9, seed=1)
    lazy = SampledSequence(plain, [1, 2])
    eager = [
        SampledSequence(replace(plain, repetition_penalty=1.1), [1]),
        SampledSequence(replace(plain, frequency_penalty=0.1), [1]),
        SampledSequence(replace(plain, no_repeat_ngram_size=1), [1]),
        SampledSequence(plain, [1], processors=(ban_even,)),
    ]
    choose([lazy, *eager], np.zeros((5, 20)), eos=(3,))
    assert lazy.asked == 0
    assert all(row.asked > 0 for row in eager)


def test_the_models_logits_are_not_changed():
    logits = np.ones((2, 8), np.float32)
    options = SamplingOptions(repetition_penalty=2.0, presence_penalty=1.0, min_length=9, seed=0)
    rows = [SampledSequence(options, [2, 3], processors=(ban_even,)), SampledSequence(options, [1])]
    RowSampler(eos_ids=(1,)).choose(logits, rows)
    np.testing.assert_array_equal(logits, 1)


def test_samples_of_one_request_share_a_seed_and_draw_apart():
    flat = np.zeros((8, 50_000))

    def draw():
        options = SamplingOptions(temperature=1.2, seed=7).for_samples(8)
        assert {o.seed for o in options} == {7}
        return choose([SampledSequence(o, [1]) for o in options], flat)

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
    assert len({choose([SampledSequence(options, [0] * n)], flat)[0] for n in range(20)}) == 20
    other = replace(options, seed=2**32 + 5)
    assert choose([SampledSequence(options)], flat) != choose([SampledSequence(other)], flat)


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"top_p": 0.0}, {"top_k": 1}])
def test_these_options_take_the_best_token(options):
    rng = fresh_rng()
    row = rng.normal(size=500)
    greedy = SamplingOptions(**{"temperature": 5.0, **options}, seed=3)
    assert {choose([SampledSequence(greedy, [0] * n)], row)[0] for n in range(30)} == {int(row.argmax())}


@pytest.mark.parametrize("options", [{"top_k": 0}, {"top_k": 2**40}, {"top_p": 1.0}, {"top_k": 100}])
def test_options_that_are_off_leave_every_token(options):
    drawing = SamplingOptions(temperature=1.0, seed=3, **options)
    tokens = {choose([SampledSequence(drawing, [0] * n)], np.zeros(100))[0] for n in range(1500)}
    assert len(tokens) == 100


def test_presence_and_frequency_count_the_answer_and_not_the_prompt():
    seen = []

    def look(history, row):
        seen.append(row.copy())

    options = SamplingOptions(presence_penalty=0.5, frequency_penalty=0.25, seed=0)
    choose([SampledSequence(options, [7, 7, 7], prompt_tokens=3, processors=(look,))], np.zeros(10))
    choose([SampledSequence(options, [7, 9, 9], prompt_tokens=1, processors=(look,))], np.zeros(10))
    np.testing.assert_array_equal(seen[0], np.zeros(10))
    np.testing.assert_array_equal(seen[1], [0] * 9 + [-1.0])


def test_a_raising_processor_costs_its_own_row_only():
    def fail(history, row):
        row[:] = np.nan
        raise ZeroDivisionError("step 3")

    plain = SamplingOptions(seed=0)
    rows = [
        SampledSequence(plain),
        SampledSequence(plain, [1], processors=(ban_even, fail)),
        SampledSequence(plain),
    ]
    first, error, last = choose(rows, np.tile(np.arange(9), (3, 1)))
    assert first == last == 8
    assert isinstance(error, LogitsProcessorError)
    assert "ZeroDivisionError" in str(error) and "step 3" in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_a_processor_that_returns_a_row_is_told_so():
    (error,) = choose(
        [SampledSequence(SamplingOptions(seed=0), processors=(lambda h, row: row + 1,))], np.zeros(4)
    )
    assert isinstance(error, LogitsProcessorError)
    assert "in place" in str(error)


def test_a_processor_cannot_change_the_tokens():
    def write(history, row):
        history[0] = 3

    (error,) = choose([SampledSequence(SamplingOptions(seed=0), [1], processors=(write,))], np.zeros(4))
    assert isinstance(error, LogitsProcessorError)


def test_a_processor_that_forbids_everything_is_told_so():
    def forbid(history, row):
        row[:] = -np.inf

    rows = [SampledSequence(SamplingOptions(temperature=t, seed=0), processors=(forbid,)) for t in (0.0, 1.0)]
    for error in choose(rows, np.zeros((2, 4))):
        assert isinstance(error, LogitsProcessorError)
        assert "left no token" in str(error)


def test_what_a_processor_forbids_stays_forbidden_when_the_rest_is_banned():
    def only_two(history, row):
        row[[0, 1, 3]] = -np.inf

    for temperature in (0.0, 1.0):
        options = SamplingOptions(temperature=temperature, no_repeat_ngram_size=1, seed=0)
        assert choose([SampledSequence(options, [0, 1, 2, 3], processors=(only_two,))], np.zeros(4)) == [2]


def test_logits_that_may_not_be_written_are_copied():
    logits = np.arange(8.0, dtype=np.float32)[None]
    logits.flags.writeable = False
    options = SamplingOptions(logit_bias={2: 100}, seed=0)
    assert RowSampler(eos_ids=()).choose(logits, [SampledSequence(options)]) == [2]


def test_logits_are_as_they_were_even_if_choosing_is_interrupted():
    def interrupt(history, row):
        raise KeyboardInterrupt

    logits = np.ones((2, 8), np.float32)
    options = SamplingOptions(repetition_penalty=2.0, logit_bias={1: -np.inf}, seed=0)
    rows = [SampledSequence(options, [1, 2, 1]), SampledSequence(options, [3], processors=(interrupt,))]
    with pytest.raises(KeyboardInterrupt):
        RowSampler(eos_ids=()).choose(logits, rows)
    np.testing.assert_array_equal(logits, 1)


def test_rows_without_changes_are_neither_copied_nor_touched():
    sampler = RowSampler(eos_ids=(1,), num_tokens=6)
    logits = np.arange(16, dtype=np.float32).reshape(2, 8)
    logits.flags.writeable = False
    rows = [SampledSequence(SamplingOptions(temperature=t, seed=0)) for t in (0.0, 1.0)]
    _, kept = sampler.choose_and_keep(logits, rows, keep=(0, 1))
    for at in (0, 1):
        assert kept[at].row.base is not None
        assert np.shares_memory(kept[at].row, logits)


def test_what_a_token_was_drawn_from_can_be_kept():
    logits = np.zeros((4, 9), np.float32)
    options = SamplingOptions(
        temperature=0.7, top_k=3, logit_bias={1: 5.0}, frequency_penalty=1.0, no_repeat_ngram_size=1, seed=4
    )
    rows = [
        SampledSequence(options, [3, 2, 2], prompt_tokens=1),
        SampledSequence(replace(options, forced_tokens=[8]), [3], prompt_tokens=1),
        SampledSequence(options, [3], sampler=SECOND_BEST),
        SampledSequence(options, [3], processors=(ban_even,)),
    ]
    sampler = RowSampler(eos_ids=(), num_tokens=9)
    chosen, kept = sampler.choose_and_keep(logits, rows, keep=(0, 1, 2))
    assert sorted(kept) == [0, 1, 2]
    np.testing.assert_array_equal(kept[0].row, [0, 5, BANNED, BANNED, 0, 0, 0, 0, 0])
    assert (kept[0].draw.temperature, kept[0].draw.top_k) == (0.7, 3)
    assert np.flatnonzero(kept[1].row == 0).tolist() == [8] == [chosen[1]]
    assert kept[1].draw.takes_best
    assert kept[2].draw.takes_best
    np.testing.assert_array_equal(logits, 0)
    assert chosen == sampler.choose(logits, rows)


def test_processed_logits_are_for_callers_that_choose_by_themselves():
    logits = np.zeros((2, 6), np.float32)
    rows = [
        SampledSequence(SamplingOptions(logit_bias={1: 2.0}, seed=0)),
        SampledSequence(SamplingOptions(logit_bias={5: 2.0}, seed=0)),
    ]
    first, error = RowSampler(eos_ids=(), num_tokens=5).process(logits, rows)
    np.testing.assert_array_equal(first, [0, 2, 0, 0, 0])
    assert isinstance(error, TokenIdError)
    np.testing.assert_array_equal(logits, 0)


@pytest.mark.parametrize("temperature", [0.0, 5.0])
def test_padding_and_holes_of_the_vocabulary_are_never_chosen(temperature):
    logits = np.full((1, 12), 50.0, np.float32)
    logits[0, [0, 3]] = 0.0
    sampler = RowSampler(eos_ids=(), num_tokens=5, unused_ids=(1, 2, 4))
    # a ban of all that is left does not bring back what is no token
    options = SamplingOptions(temperature=temperature, no_repeat_ngram_size=1, seed=1)
    chosen = {sampler.choose(logits, [SampledSequence(options, [0, 3] * n)])[0] for n in range(40)}
    assert chosen <= {0, 3}
    assert len(chosen) == (1 if temperature == 0 else 2)


@pytest.mark.parametrize(
    "option", [{"logit_bias": {9: 1.0}}, {"forced_tokens": [9]}, {"bad_words": [[1, 9]]}]
)
def test_an_id_that_is_no_token_costs_its_own_row_only(option):
    rows = [SampledSequence(SamplingOptions(seed=0, **own)) for own in ({}, option, {})]
    first, error, last = RowSampler(eos_ids=(), num_tokens=9).choose(np.zeros((3, 12), np.float32), rows)
    assert first == last == 0
    assert isinstance(error, TokenIdError)
    assert f"token id 9 of {next(iter(option))}" in str(error)


def test_forced_tokens_stand_at_their_places_of_the_answer():
    options = SamplingOptions(forced_tokens={0: 4, 2: 5}, bad_words=[[4]], temperature=1.0, seed=0)
    row = SampledSequence(options, [1, 2], prompt_tokens=2)
    sampler = RowSampler(eos_ids=())
    logits = np.zeros((1, 6), np.float32)
    logits[0, 3] = 50
    for _ in range(4):
        row.tokens += sampler.choose(logits, [row])
    assert row.tokens[2:] == [4, 3, 5, 3]


def test_a_window_of_the_penalty_is_that_of_the_last_tokens():
    options = SamplingOptions(repetition_penalty=2.0, repetition_window=2, seed=0)
    (row,) = RowSampler(eos_ids=()).process(
        np.ones((1, 5), np.float32), [SampledSequence(options, [1, 1, 2, 3], prompt_tokens=3)]
    )
    np.testing.assert_array_equal(row, [1, 1, 0.5, 0.5, 1])


def test_a_bias_that_forbids_every_token_is_the_options_fault():
    options = SamplingOptions(logit_bias=dict.fromkeys(range(4), -np.inf), seed=0)
    (error,) = choose([SampledSequence(options)], np.zeros(4))
    assert isinstance(error, OptionError)
    assert "logit_bias" in str(error)


def test_a_penalty_that_leaves_no_numbers_is_the_options_fault():
    options = SamplingOptions(repetition_penalty=1e-50, seed=0)  # 0 in float32
    (error,) = choose([SampledSequence(options, [1, 2, 3])], [0, -1, 2, -np.inf])
    assert isinstance(error, OptionError)
    assert "penalty" in str(error)


def test_other_options_of_a_sequence_are_heeded_from_then_on():
    row = SampledSequence(SamplingOptions(logit_bias={1: 1.0}, seed=0))
    sampler = RowSampler(eos_ids=())
    assert sampler.choose(np.zeros((1, 4), np.float32), [row]) == [1]
    row.options = SamplingOptions(logit_bias={2: 1.0}, seed=0)
    assert sampler.choose(np.zeros((1, 4), np.float32), [row]) == [2]


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_broken_row_has_an_error_and_its_neighbours_have_tokens(broken):
    logits = np.tile(np.arange(9.0), (3, 1))
    logits[1, 4] = broken
    for options in (SamplingOptions(seed=0), SamplingOptions(temperature=1e-9, top_p=0.9, seed=0)):
        first, error, last = choose([SampledSequence(options, [0] * 5)] * 3, logits)
        assert first == last == 8
        assert isinstance(error, BackendError)
        assert "token 4" in str(error) and "5 tokens" in str(error)


def test_a_step_without_rows_chooses_nothing():
    assert RowSampler(eos_ids=()).choose(np.empty((0, 9), np.float32), []) == []


@pytest.mark.parametrize("width", [5, 64, 1000])
@pytest.mark.parametrize("plain", [True, False])
def test_sequences_that_come_again_get_what_each_gets_alone(width, plain):
    rng = fresh_rng()
    choices = [
        {},
        {"temperature": 0.8},
        {"temperature": 1.2, "top_k": 5},
        {"temperature": 0.7, "top_p": 0.8},
        {"temperature": 1.0, "min_p": 0.1},
        {"temperature": 1.0, "mirostat": 2},
        {"repetition_penalty": 1.3},
    ]
    options = choices[:-2] if plain else choices
    together = RowSampler(eos_ids=[1], num_tokens=width - 2)
    rows = [
        SampledSequence(SamplingOptions(seed=i, **options[rng.integers(len(options))]), [1, 2, 3], 3)
        for i in range(rng.integers(2, 7))
    ]
    for step in range(8):
        if step == 6:
            rows.pop(rng.integers(len(rows)))
        logits = rng.normal(0, 3, (len(rows), width)).astype(np.float32)
        if step == 4:
            logits[rng.integers(len(rows)), 0] = np.nan
        found = together.choose(logits, rows)
        for own, row, token in zip(logits, rows, found, strict=True):
            [alone] = RowSampler(eos_ids=[1], num_tokens=width - 2).choose(own[None], [row])
            assert type(token) is type(alone), row.options
            if isinstance(token, int):
                assert token == alone, row.options
                row.tokens.append(token)


def test_sequences_that_come_again_may_have_wider_rows():
    sampler = RowSampler(eos_ids=())
    row = SampledSequence(SamplingOptions(seed=0), [1])
    for width in (5, 5, 5, 9, 9, 9, 4):
        assert sampler.choose(np.arange(width, dtype=np.float32)[None], [row]) == [width - 1]


def test_sequences_in_turns_keep_their_own_options_whatever_is_kept_of_them():
    rng = fresh_rng()
    sampler = RowSampler(eos_ids=[])
    sequences = [
        SampledSequence(SamplingOptions(temperature=1.0, seed=1, repetition_penalty=1.5), [1, 2], 2),
        SampledSequence(SamplingOptions(temperature=1.5, seed=2), [3], 1),
        SampledSequence(SamplingOptions(seed=3), [4], 1),
    ]
    for _ in range(200):
        row = sequences[rng.integers(3)]
        logits = rng.normal(0, 1, (1, 50)).astype(np.float32)
        keep = [0] if rng.random() < 0.5 else []
        [token] = sampler.choose_and_keep(logits, [row], keep=keep)[0]
        assert [token] == RowSampler(eos_ids=[]).choose(logits, [row])
        row.tokens.append(token)


def mask_without(*tokens, vocab=VOCAB):
    allowed = np.ones(vocab, bool)
    allowed[list(tokens)] = False
    return mask_of(allowed)


def any_mask(rng):
    allowed = rng.random(VOCAB) < rng.choice([0.01, 0.5, 0.99])
    allowed[rng.integers(VOCAB, size=3)] = True
    return allowed


class FillMask:
    """The mask as a processor that comes last would write it."""

    def __init__(self, allowed):
        self.allowed = allowed

    def __call__(self, history, row):
        row[~self.allowed] = -np.inf


def test_a_mask_is_what_minus_infinity_in_its_places_is():
    rng = fresh_rng()
    sampler = RowSampler(eos_ids=())
    for _ in range(12):
        rows = [any_sequence(rng) for _ in range(12)]
        allowed = [any_mask(rng) for _ in rows]
        for row in rows:
            row.options = replace(row.options, no_repeat_ngram_size=0, bad_words=(), min_length=0)
        logits = rng.normal(scale=3, size=(len(rows), VOCAB)).astype(np.float32)
        before = logits.copy()
        masked = [
            replace(row, mask=mask_of(a), row_state=RowState()) for row, a in zip(rows, allowed, strict=True)
        ]
        filled = [
            replace(row, processors=(*row.processors, FillMask(a)), row_state=RowState())
            for row, a in zip(rows, allowed, strict=True)
        ]
        keep = [at for at in range(len(rows)) if rng.random() < 0.3]
        found, kept = sampler.choose_and_keep(logits, masked, keep=keep)
        expected, of_filled = sampler.choose_and_keep(logits, filled, keep=keep)
        assert [None if isinstance(f, Exception) else f for f in found] == [
            None if isinstance(f, Exception) else f for f in expected
        ]
        assert np.array_equal(logits, before)
        for at, drawn in kept.items():
            assert np.array_equal(drawn.row, of_filled[at].row)
        for row, a, processed in zip(masked, allowed, sampler.process(logits, masked), strict=True):
            if row.num_new_tokens not in dict(row.options.forced_tokens):
                assert np.isneginf(processed[~a]).all()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_rows_with_masks_that_come_again_get_what_they_get_anew(temperature):
    rng = fresh_rng()
    sampler = RowSampler(eos_ids=())
    options = [SamplingOptions(temperature=temperature, seed=i) for i in range(5)]
    states = [RowState() for _ in options]
    tokens = [[1] for _ in options]
    for step in range(8):
        logits = rng.normal(scale=2, size=(5, VOCAB)).astype(np.float32)
        masks = [mask_of(any_mask(rng)) if (step + i) % 3 else None for i in range(5)]
        rows = [
            SampledSequence(o, t, mask=m, row_state=s)
            for o, t, m, s in zip(options, tokens, masks, states, strict=True)
        ]
        found = sampler.choose(logits, rows)
        for row, own, token in zip(rows, logits, found, strict=True):
            assert choose([replace(row, row_state=RowState())], own) == [token]
            row.tokens.append(token)


def test_a_row_of_which_mask_and_bias_leave_nothing_fails_alone():
    only_5 = mask_of(np.arange(VOCAB) == 5)
    rows = [
        SampledSequence(SamplingOptions(seed=0, logit_bias={5: -np.inf}), [1], mask=only_5),
        SampledSequence(SamplingOptions(seed=0, logit_bias={6: -np.inf}), [1], mask=only_5),
        SampledSequence(SamplingOptions(seed=0), [1], mask=np.zeros_like(only_5)),
        SampledSequence(SamplingOptions(seed=0), [1]),
    ]
    logits = np.zeros((4, VOCAB), np.float32)
    logits[:, 9] = 1
    first, second, third, fourth = choose(rows, logits)
    assert (second, fourth) == (5, 9)
    assert isinstance(first, OptionError)
    assert "the grammar lets 1 follow" in str(first)
    assert isinstance(third, OptionError)
    assert "the grammar lets 0 follow" in str(third)


def test_bans_that_leave_nothing_of_a_mask_are_told():
    mask = mask_of(np.arange(VOCAB) < 3)
    rows = [
        SampledSequence(SamplingOptions(seed=0, bad_words=((0,), (1,), (2,))), [7], mask=mask),
        SampledSequence(SamplingOptions(seed=0, bad_words=((0,), (2,))), [7], mask=mask),
        SampledSequence(SamplingOptions(seed=0, no_repeat_ngram_size=1), [2, 1, 0], mask=mask),
    ]
    first, second, third = choose(rows, np.zeros((3, VOCAB)))
    assert second == 1
    for error in (first, third):
        assert isinstance(error, OptionError)
        assert "ban all that the grammar lets follow" in str(error)


def test_an_end_that_is_banned_waits_while_others_may_follow():
    options = SamplingOptions(seed=0, min_length=10)
    logits = np.zeros((3, VOCAB), np.float32)
    logits[:, 4] = 5
    rows = [
        SampledSequence(options, [1], mask=mask_of(np.isin(np.arange(VOCAB), [4, 8]))),
        SampledSequence(options, [1], mask=mask_of(np.arange(VOCAB) == 4)),
        SampledSequence(options, list(range(10)), mask=mask_of(np.isin(np.arange(VOCAB), [4, 8]))),
    ]
    assert choose(rows, logits, eos=(4,)) == [8, 4, 4]


def test_processors_see_the_row_before_the_mask():
    seen = []

    def look(history, row):
        seen.append(row.copy())

    mask = mask_without(3)
    logits = np.zeros((1, VOCAB), np.float32)
    logits[0, 3] = 9
    assert choose([SampledSequence(SamplingOptions(seed=0), [1], processors=(look,), mask=mask)], logits) == [
        0
    ]
    assert seen[0][3] == 9
