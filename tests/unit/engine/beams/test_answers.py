import math

import numpy as np
import pytest

from hash_backend import HashBackend
from onnxgen.backends.adapters import Adapter
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.beams.answers import BeamModel, beam_answers
from onnxgen.engine.beams.options import ONNXRUNTIME_GENAI, BeamOptions
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.errors import (
    BackendError,
    ContextLengthError,
    LogitsProcessorError,
    OptionError,
    StateError,
    TokenIdError,
)

VOCAB, EOS = 40, 3


def fake(**options):
    return FakeBackend(VOCAB, max_context=64, **options)


def model(backend=None, **options):
    return BeamModel(backend or fake(), **{"eos_ids": [EOS], **options})


def sum_of_logprobs(backend, prompt, tokens):
    total = 0.0
    for n, token in enumerate(tokens):
        row = backend.logits_after([*prompt, *tokens[:n]]).astype(np.float64)
        total += row[token] - math.log(np.exp(row).sum())
    return total


def test_one_beam_is_greedy_search():
    backend = fake()
    ((best,),) = beam_answers(model(backend), [[5, 6]], BeamOptions(1, length_penalty=0.0), max_new_tokens=9)
    tokens = [5, 6]
    while len(tokens) < 11 and (tokens[-1] != EOS or len(tokens) < 3):
        tokens.append(int(np.argmax(backend.logits_after(tokens))))
    assert list(best.token_ids) == [t for t in tokens[2:] if t != EOS]


def test_scores_say_how_likely_answers_are():
    backend = fake(block_size=4)
    options = BeamOptions(4, num_return_sequences=4, length_penalty=2.0)
    (answers,) = beam_answers(model(backend), [[5, 6, 7]], options, max_new_tokens=8)
    assert [a.score for a in answers] == sorted([a.score for a in answers], reverse=True)
    for answer in answers:
        tokens = [*answer.token_ids, *([EOS] if answer.finish_reason == "eos" else [])]
        assert answer.sum_logprobs == pytest.approx(sum_of_logprobs(backend, [5, 6, 7], tokens), rel=1e-5)
        assert answer.score == pytest.approx(answer.sum_logprobs / len(tokens) ** 2)


def test_reasons_tell_ends_stops_and_lengths_apart():
    backend = fake(continuations={(5,): (10, 11, EOS), (6,): (12, 13, 14), (7,): (15, 16, 17, 18, 19, 20)})
    answers = beam_answers(model(backend), [[5], [6], [7]], BeamOptions(2), max_new_tokens=4, stop_ids=[14])
    assert [(a[0].token_ids, a[0].finish_reason) for a in answers] == [
        ((10, 11), "eos"),
        ((12, 13), "stop"),
        ((15, 16, 17, 18), "length"),
    ]


def test_answers_end_with_the_context():
    for length in (61, 62, 63):
        (answers,) = beam_answers(model(), [[7] * length], BeamOptions(3), max_new_tokens=20)
        assert 0 <= len(answers[0].token_ids) <= 64 - length
    with pytest.raises(ContextLengthError, match=r"prompt of 64 tokens leaves no room .* 64 tokens"):
        beam_answers(model(), [[1], [7] * 64], BeamOptions(3))


def test_a_cancelled_search_gives_the_best_so_far():
    asked = []

    def cancelled():
        asked.append(None)
        return len(asked) > 4

    options = BeamOptions(3, num_return_sequences=2)
    (answers,) = beam_answers(model(eos_ids=[]), [[5, 6]], options, max_new_tokens=20, cancelled=cancelled)
    assert [(len(a.token_ids), a.finish_reason) for a in answers] == [(4, "cancelled")] * 2
    (whole,) = beam_answers(model(eos_ids=[]), [[5, 6]], options, max_new_tokens=4)
    assert [a.token_ids for a in whole] == [a.token_ids for a in answers]


def test_a_search_that_is_cancelled_before_it_began_has_an_empty_answer():
    (answers,) = beam_answers(model(), [[5]], BeamOptions(2), cancelled=lambda: True)
    assert [(a.token_ids, a.finish_reason) for a in answers] == [((), "cancelled")]


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
def test_prompts_get_alone_what_they_get_among_others(early_stopping):
    rng = np.random.default_rng()
    prompts = [rng.integers(VOCAB, size=n).tolist() for n in rng.integers(1, 20, size=23)]
    options = BeamOptions(4, num_return_sequences=3, length_penalty=3.0, early_stopping=early_stopping)
    backend = fake(block_size=4)
    together = beam_answers(model(backend, chunk_tokens=7), prompts, options, max_new_tokens=12)
    assert max(step.num_seqs for step in backend.steps) == 32
    for prompt, answers in zip(prompts, together, strict=True):
        assert beam_answers(model(), [prompt], options, max_new_tokens=12) == [answers]


def test_every_prompt_is_computed_once():
    backend = fake(block_size=4)
    beam_answers(model(backend, eos_ids=[]), [[1] * 9, [2] * 5], BeamOptions(4), max_new_tokens=6)
    assert backend.num_tokens == 14 + 8 * 5


def test_penalties_and_bans_are_of_each_beam():
    sampling = SamplingOptions(no_repeat_ngram_size=1, min_length=9)
    options = BeamOptions(4, num_return_sequences=4)
    (answers,) = beam_answers(model(), [[5, 6]], options, max_new_tokens=12, sampling=sampling)
    for answer in answers:
        tokens = [5, 6, *answer.token_ids]
        assert len(set(tokens)) == len(tokens) >= 9


def test_rules_say_what_penalties_act_on():
    sampling = SamplingOptions(repetition_penalty=3.0)
    options = BeamOptions(4, length_penalty=0.0)
    found = [
        beam_answers(model(), [[5, 6]], options, max_new_tokens=12, sampling=sampling, **more)[0][0]
        for more in ({}, {"rules": ONNXRUNTIME_GENAI})
    ]
    assert found[0] != found[1]


def test_padding_of_the_vocabulary_and_holes_are_never_chosen():
    options = BeamOptions(6, num_return_sequences=6)
    limited = model(num_tokens=12, unused_ids=[5, 7])
    (answers,) = beam_answers(limited, [[20]], options, max_new_tokens=12)
    used = {token for answer in answers for token in answer.token_ids}
    assert used <= set(range(12)) - {5, 7, EOS}
    # and are no part of the sum that makes probabilities
    backend = fake()
    ((best,),) = beam_answers(model(backend, num_tokens=12), [[20]], BeamOptions(1), max_new_tokens=1)
    row = backend.logits_after([20])[:12].astype(np.float64)
    assert best.sum_logprobs == pytest.approx(row.max() - math.log(np.exp(row).sum()), rel=1e-5)


def test_processors_see_each_beam_and_may_end_some():
    seen = []

    def only_low_tokens(history, row):
        seen.append(history.tolist())
        row[history[-1] + 1 :] = -np.inf

    (answers,) = beam_answers(
        model(eos_ids=[]), [[20]], BeamOptions(3), max_new_tokens=5, processors=[only_low_tokens]
    )
    tokens = [20, *answers[0].token_ids]
    assert tokens == sorted(tokens, reverse=True)
    assert [20] in seen
    assert len(seen) == 1 + 4 * 3


def test_fewer_answers_where_there_are_no_more():
    def one_of_two(history, row):
        row[2:] = -np.inf

    options = BeamOptions(4, num_return_sequences=4)
    (answers,) = beam_answers(model(eos_ids=[0]), [[20]], options, max_new_tokens=2, processors=[one_of_two])
    assert sorted(a.token_ids for a in answers) == [(), (1,), (1, 1)]


def test_no_token_at_all_is_an_error():
    def nothing(history, row):
        row[:] = -np.inf

    with pytest.raises(LogitsProcessorError, match="left no token"):
        beam_answers(model(), [[20]], BeamOptions(2), processors=[nothing])


def test_a_processor_that_fails_says_so():
    def broken(history, row):
        raise ValueError("oh no")

    def not_a_number(history, row):
        row[5] = np.nan

    with pytest.raises(LogitsProcessorError, match="oh no"):
        beam_answers(model(), [[20]], BeamOptions(2), processors=[broken])
    with pytest.raises(LogitsProcessorError, match="NaN"):
        beam_answers(model(), [[20]], BeamOptions(2), processors=[not_a_number])


def test_nothing_may_be_drawn():
    with pytest.raises(OptionError, match=r"draw none, but temperature=0\.7"):
        beam_answers(model(), [[1]], BeamOptions(2), sampling=SamplingOptions(temperature=0.7))


def test_ids_outside_the_vocabulary_and_empty_prompts_are_refused():
    with pytest.raises(TokenIdError):
        beam_answers(model(), [[1, VOCAB]], BeamOptions(2))
    with pytest.raises(StateError, match="no tokens"):
        beam_answers(model(), [[]], BeamOptions(2))
    assert beam_answers(model(), [], BeamOptions(2)) == []


def test_a_step_that_fails_ends_the_search_and_frees_the_cache():
    backend = HashBackend()
    backend.fail_at = {3}
    with pytest.raises(BackendError):
        beam_answers(model(backend), [[1, 2]], BeamOptions(2), max_new_tokens=9)
    assert [cache.closed for cache in backend.caches] == [1]


def test_answers_that_outgrow_the_first_cache_are_the_same(monkeypatch):
    monkeypatch.setattr("onnxgen.engine.beams.answers._FIRST_ROOM", 2)
    options = BeamOptions(4, num_return_sequences=4)
    small = beam_answers(model(fake(block_size=4), eos_ids=[]), [[1, 2, 3], [4]], options, max_new_tokens=30)
    monkeypatch.undo()
    assert small == beam_answers(model(eos_ids=[]), [[1, 2, 3], [4]], options, max_new_tokens=30)


def test_beams_are_searched_under_an_adapter():
    def answers(**more):
        backend = fake(block_size=4)
        backend.adapters.load(Adapter("pirate", source="nowhere", digest="arr"))
        return beam_answers(model(backend), [[5, 6]], BeamOptions(3), max_new_tokens=8, **more)

    assert answers(adapter="pirate") != answers()
