"""What requests bring of their own: called for all that share it, and at fault for its own sequences only."""

import numpy as np
import pytest

from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.rows import RowSampler
from onnxgen.errors import BackendError, LogitsProcessorError
from sampled_sequences import SampledSequence

PLAIN = SamplingOptions(seed=0)


def choose(rows, logits, **options):
    return RowSampler(eos_ids=(), **options).choose(np.array(logits, np.float32), rows)


class Prefers:
    """Adds to the logit of a token; raises for histories that end with another one."""

    def __init__(self, token, *, fails_after=None):
        self.token, self.fails_after, self.calls = token, fails_after, []

    def process_rows(self, histories, logits):
        self.calls.append(len(histories))
        logits[:, self.token] += 10
        for history in histories:
            if len(history) and history[-1] == self.fails_after:
                raise ZeroDivisionError("step 3")


class Takes:
    """Chooses what it was made with, cut to the number of rows."""

    def __init__(self, *tokens):
        self.tokens, self.seen = tokens, []

    def choose_rows(self, logits, rows):
        self.seen.append(logits.copy())
        return list(self.tokens)[: len(rows)]


def test_rows_that_share_a_batched_processor_are_given_to_it_together():
    shared, other = Prefers(2), Prefers(3)
    rows = [SampledSequence(PLAIN, [1], processors=(own,)) for own in (shared, other, shared)]
    assert choose(rows, np.zeros((3, 5))) == [2, 3, 2]
    assert shared.calls == [2]
    assert other.calls == [1]


def test_processors_run_in_each_rows_order():
    def halve(history, row):
        row /= 2

    add = Prefers(1)
    rows = [
        SampledSequence(SamplingOptions(seed=0), [1], processors=own)
        for own in ((add, halve), (halve, add), (halve,))
    ]
    processed = RowSampler(eos_ids=()).process(np.full((3, 2), 4, np.float32), rows)
    assert [row.tolist() for row in processed] == [[2, 7], [2, 12], [2, 2]]


def test_a_raising_batched_processor_costs_the_sequence_at_fault_only():
    shared = Prefers(2, fails_after=7)
    rows = [SampledSequence(PLAIN, [last], processors=(shared,)) for last in (1, 7, 3)]
    first, error, last = choose(rows, [[0, 0, 0, 15]] * 3)
    # called again with logits as they were: 10 was added once
    assert first == last == 3
    assert isinstance(error, LogitsProcessorError)
    assert "ZeroDivisionError" in str(error) and "step 3" in str(error)
    assert shared.calls == [3, 1, 1, 1]


def test_a_batched_processor_that_returns_something_is_told_so():
    class Returns:
        def process_rows(self, histories, logits):
            return logits

    (error,) = choose([SampledSequence(PLAIN, [1], processors=(Returns(),))], np.zeros((1, 3)))
    assert isinstance(error, LogitsProcessorError)
    assert "in place" in str(error)


def test_histories_of_batched_processors_cannot_be_changed():
    class Writes:
        def process_rows(self, histories, logits):
            histories[0][0] = 3

    (error,) = choose([SampledSequence(PLAIN, [1], processors=(Writes(),))], np.zeros((1, 3)))
    assert isinstance(error, LogitsProcessorError)


@pytest.mark.parametrize("left", [np.nan, np.inf, -np.inf])
def test_what_a_processor_leaves_behind_is_its_fault_and_not_the_models(left):
    def spoil(history, row):
        row[:] = left

    first, error = choose(
        [SampledSequence(PLAIN, [1]), SampledSequence(PLAIN, [1], processors=(spoil,))], np.zeros((2, 3))
    )
    assert first == 0
    assert isinstance(error, LogitsProcessorError)


def test_a_broken_model_is_not_a_processors_fault():
    (error,) = choose([SampledSequence(PLAIN, [1], processors=(Prefers(1),))], [[0, np.nan, 1]])
    assert isinstance(error, BackendError)


def test_a_sampler_chooses_for_all_rows_that_have_it():
    own = Takes(2, 0)
    rows = [SampledSequence(PLAIN, sampler=own), SampledSequence(PLAIN), SampledSequence(PLAIN, sampler=own)]
    assert choose(rows, [[0, 1, 0]] * 3) == [2, 1, 0]
    assert [seen.shape for seen in own.seen] == [(2, 3)]


def test_a_sampler_sees_changed_logits_without_padding_and_may_write_to_them():
    class Best:
        def choose_rows(self, logits, rows):
            chosen = logits.argmax(axis=1)
            logits[:] = np.nan
            return chosen

    options = SamplingOptions(logit_bias={1: 3.0}, seed=0)
    logits = np.array([[2, 0, 0, 9, 9]], np.float32)
    rows = [SampledSequence(options, sampler=Best())]
    assert RowSampler(eos_ids=(), num_tokens=3).choose(logits, rows) == [1]
    np.testing.assert_array_equal(logits, [[2, 0, 0, 9, 9]])


@pytest.mark.parametrize(
    "tokens", [(3,), (-1,), (2**63,), (1.0,), (True,), ("1",), (None,), ((1,),), (4,), (), (1, 1)]
)
def test_what_a_sampler_returns_is_checked(tokens):
    class Wrong:
        def choose_rows(self, logits, rows):
            return list(tokens)

    rows = [SampledSequence(PLAIN), SampledSequence(PLAIN, sampler=Wrong()), SampledSequence(PLAIN)]
    first, error, last = choose(rows, np.zeros((3, 6)), num_tokens=5, unused_ids=(3,))
    if tokens == (4,):
        assert error == 4
    else:
        assert isinstance(error, LogitsProcessorError)
        assert "sampler" in str(error)
    assert first == last == 0


def test_a_sampler_that_fails_for_one_sequence_chooses_for_the_others():
    class Picky:
        def choose_rows(self, logits, rows):
            if any(row.num_tokens == 2 for row in rows):
                raise ZeroDivisionError
            return np.full(len(rows), 2, np.uint8)

    own = Picky()
    rows = [SampledSequence(PLAIN, [0] * n, sampler=own) for n in (1, 2, 3)]
    first, error, last = choose(rows, np.zeros((3, 4)))
    assert first == last == 2
    assert isinstance(error, LogitsProcessorError)
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_a_sampler_is_not_asked_about_broken_rows():
    own = Takes(1, 1)
    (error,) = choose([SampledSequence(PLAIN, sampler=own)], [[0, np.nan, 1]])
    assert isinstance(error, BackendError)
    assert own.seen == []


class UnspeakableError(Exception):
    """Cannot be told, and raises itself whatever is asked of it."""

    def __str__(self):
        raise ValueError("there is nothing to say")

    __repr__ = __str__

    def process_rows(self, histories, logits):
        raise self

    def choose_rows(self, logits, rows):
        return self if rows[0].num_tokens else [-1] * len(rows)


class MuteProcessorError(UnspeakableError):
    def process_rows(self, histories, logits):
        pass


class Talkative:
    """Says all that it holds."""

    def __repr__(self):
        return "everything " * 100_000

    def __call__(self, history, row):
        raise ValueError("what " * 100_000)


def test_what_cannot_be_told_of_or_never_ends_is_the_fault_of_its_own_request():
    dumb = UnspeakableError()

    def break_row(history, row):
        row.fill(np.nan)

    rows = [
        SampledSequence(PLAIN, [1]),
        SampledSequence(PLAIN, [1], processors=(dumb,)),
        SampledSequence(PLAIN, [1], processors=(dumb,)),
        SampledSequence(PLAIN, [1], sampler=dumb),
        SampledSequence(PLAIN, [], sampler=UnspeakableError()),
        SampledSequence(PLAIN, [1], processors=(break_row, MuteProcessorError())),
        SampledSequence(PLAIN, [1], processors=(Talkative(),)),
    ]
    token, *errors = choose(rows, [[0, 1, 0]] * len(rows))
    assert token == 1
    for error in errors:
        assert isinstance(error, LogitsProcessorError)
        assert len(str(error)) < 1000
    assert "<UnspeakableError> raised UnspeakableError after 1 tokens: <UnspeakableError>" in str(errors[0])
