import numpy as np
import pytest

from onnxgen.engine.beams.answers import BeamModel, beam_answers
from onnxgen.engine.beams.options import ONNXRUNTIME_GENAI, BeamOptions
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.errors import BackendError, CapabilityError, ContextLengthError, OptionError, StateError
from tiny_model_folder import fake_backend, open_generator, write_model_folder
from tiny_tokenizer import EOS, PAD, VOCAB_SIZE

ROWS = [[7, 8, 9], [10, 11, 12]]


@pytest.fixture
def folder(tmp_path):
    return write_model_folder(tmp_path / "model")


def run(g):
    while not g.is_done():
        g.generate_next_token()
    return g


def wanted(rows, *, max_new_tokens, sampling=None, **options):
    """What the search gives without a generator."""
    answers = beam_answers(
        BeamModel(fake_backend(), eos_ids=[EOS]),
        rows,
        BeamOptions(early_stopping=True, **options),
        max_new_tokens=max_new_tokens,
        sampling=sampling,
        rules=ONNXRUNTIME_GENAI,
    )
    return [[*row, *answer.token_ids] for row, best in zip(rows, answers, strict=True) for answer in best]


def test_a_published_loop_gives_the_best_sequences(folder):
    g = open_generator(folder, batch_size=2, num_beams=3, num_return_sequences=2, max_length=11)
    g.append_tokens(ROWS)
    run(g)
    got = [g.get_sequence(i).tolist() for i in range(4)]
    assert got == wanted(ROWS, max_new_tokens=8, num_beams=3, num_return_sequences=2)
    assert g.token_count() == 11
    assert g.get_sequence(0).dtype == np.int32


def test_every_beam_shows_its_logits_and_its_token(folder):
    backend = fake_backend()
    g = open_generator(folder, backend, batch_size=2, num_beams=3, max_length=9)
    g.append_tokens(ROWS)
    first = g.get_logits()
    assert first.shape == (6, 1, VOCAB_SIZE)
    np.testing.assert_array_equal(first[:, 0], [backend.logits_after(ROWS[i // 3]) for i in range(6)])
    g.generate_next_token()
    assert g.token_count() == 4
    tokens = g.get_next_tokens()
    assert tokens.shape == (6,)
    best = np.argsort(-first[[0, 3], 0], kind="stable")[:, :4]
    for i in range(2):
        assert tokens[3 * i : 3 * i + 3].tolist() == [t for t in best[i].tolist() if t != EOS][:3]
    np.testing.assert_array_equal(
        g.get_logits()[:, 0], [backend.logits_after([*ROWS[i // 3], tokens[i]]) for i in range(6)]
    )


def test_prompts_are_computed_once_and_not_for_every_beam(folder):
    backend = fake_backend()
    g = open_generator(folder, backend, batch_size=2, num_beams=4)
    g.append_tokens(ROWS)
    assert backend.num_tokens == 6


def test_prompts_that_are_done_give_padding(folder):
    # the first prompt's only likely answer ends at once, the second's after some tokens
    backend = fake_backend(continuations={(7,): (), (9,): (20, 21, 22, 23, 24)}, eos_token_id=EOS)
    g = open_generator(
        folder, backend, batch_size=2, num_beams=2, length_penalty=0, early_stopping=False, max_length=20
    )
    g.append_tokens([[7], [9]])
    seen = []
    while not g.is_done():
        g.generate_next_token()
        seen.append(g.get_next_tokens().reshape(2, 2).tolist())
    assert seen[-1][0] == [PAD, PAD]
    assert np.isnan(g.get_logits()[:2]).all()
    assert g.get_sequence(0).tolist() == [7]
    assert g.get_sequence(1).tolist() == [9, 20, 21, 22, 23, 24]


def test_padding_at_a_prompts_end_changes_nothing(folder):
    search = {"num_beams": 3, "length_penalty": 2.0, "early_stopping": False}
    alone = open_generator(folder, max_length=10, **search)
    alone.append_tokens([7, 8])
    run(alone)
    both = open_generator(folder, batch_size=2, max_length=13, **search)
    both.append_tokens([[7, 8, PAD, PAD, PAD], [9, 10, 11, 12, 13]])
    run(both)
    assert both.get_sequence(0)[5:].tolist() == alone.get_sequence(0)[2:].tolist()
    assert both.get_sequence(0)[:5].tolist() == [7, 8, PAD, PAD, PAD]


def test_looking_at_a_sequence_does_not_end_the_search(folder):
    g = open_generator(folder, num_beams=3, max_length=12)
    g.append_tokens([7, 8])
    assert g.get_sequence(0).tolist() == [7, 8]
    while not g.is_done():
        g.generate_next_token()
        assert g.get_sequence(0)[:2].tolist() == [7, 8]
    assert [g.get_sequence(0).tolist()] == wanted([[7, 8]], max_new_tokens=10, num_beams=3)


def test_penalties_and_bans_are_those_of_each_beam(folder):
    g = open_generator(
        folder, num_beams=4, max_length=16, repetition_penalty=1.4, no_repeat_ngram_size=2, min_length=12
    )
    g.append_tokens([7, 8, 7])
    run(g)
    sampling = SamplingOptions(repetition_penalty=1.4, no_repeat_ngram_size=2, min_length=12)
    assert [g.get_sequence(0).tolist()] == wanted(
        [[7, 8, 7]], max_new_tokens=13, num_beams=4, sampling=sampling
    )
    assert len(g.get_sequence(0)) >= 12


def test_a_diversity_penalty_makes_every_beam_a_group(folder):
    g = open_generator(folder, num_beams=3, num_return_sequences=3, max_length=10, diversity_penalty=100.0)
    g.append_tokens([7, 8])
    g.generate_next_token()
    assert len(set(g.get_next_tokens().tolist())) == 3
    run(g)
    assert [g.get_sequence(i).tolist() for i in range(3)] == wanted(
        [[7, 8]],
        max_new_tokens=8,
        num_beams=3,
        num_return_sequences=3,
        num_beam_groups=3,
        diversity_penalty=100.0,
    )


def test_given_logits_are_chosen_from(folder):
    g = open_generator(folder, num_beams=2)
    g.append_tokens([7, 8])
    logits = g.get_logits()
    logits[0, 0, 30], logits[0, 0, 31], logits[1, 0, 32] = 60, 50, 1000
    g.set_logits(logits)
    g.generate_next_token()
    assert g.get_next_tokens().tolist() == [30, 31]


def test_only_the_beginning_can_be_gone_back_to(folder):
    g = open_generator(folder, num_beams=2, max_length=9)
    g.append_tokens([7, 8])
    run(g)
    first = g.get_sequence(0).tolist()
    g.rewind_to(g.token_count())
    with pytest.raises(CapabilityError, match=r"cannot go back to 3 of 9 tokens"):
        g.rewind_to(3)
    assert g.get_sequence(0).tolist() == first
    g.rewind_to(0)
    assert g.token_count() == 0
    assert not g.is_done()
    g.append_tokens([7, 8])
    assert run(g).get_sequence(0).tolist() == first


def test_a_step_that_fails_can_be_tried_again(folder):
    fails = [False]
    backend = fake_backend(block_size=4, fail_when=lambda _: fails[0])
    g = open_generator(folder, backend, num_beams=3, max_length=14)
    g.append_tokens([7, 8])
    rng = np.random.default_rng()
    while not g.is_done():
        if rng.random() < 0.4 and g.token_count() > 2:
            before = g.token_count()
            fails[0] = True
            with pytest.raises(BackendError, match="script"):
                g.generate_next_token()
            fails[0] = False
            assert g.token_count() == before
        g.generate_next_token()
    assert [g.get_sequence(0).tolist()] == wanted([[7, 8]], max_new_tokens=12, num_beams=3)


def test_a_prompt_that_failed_can_be_given_again(folder):
    backend = fake_backend(fail_steps={0})
    g = open_generator(folder, backend, num_beams=2, max_length=6)
    with pytest.raises(BackendError):
        g.append_tokens([7, 8])
    assert g.token_count() == 0
    g.append_tokens([7, 8])
    assert [run(g).get_sequence(0).tolist()] == wanted([[7, 8]], max_new_tokens=4, num_beams=2)


def test_calls_out_of_order_are_refused(folder):
    g = open_generator(folder, num_beams=2, max_length=4)
    with pytest.raises(StateError, match="nothing to continue"):
        g.generate_next_token()
    with pytest.raises(StateError, match="nothing to continue"):
        g.get_logits()
    g.append_tokens([7, 8, 9])
    with pytest.raises(StateError, match="no token was generated"):
        g.get_next_tokens()
    with pytest.raises(StateError, match="once only"):
        g.append_tokens([1])
    with pytest.raises(OptionError, match="sequence 1 was asked for; there are 1"):
        g.get_sequence(1)
    g.generate_next_token()
    with pytest.raises(ContextLengthError, match="4 of 4"):
        g.generate_next_token()


def test_a_prompt_may_fill_the_maximum_and_no_more(folder):
    g = open_generator(folder, num_beams=2, max_length=3)
    with pytest.raises(ContextLengthError, match="4 prompt tokens do not fit max_length=3"):
        g.append_tokens([1, 4, 5, 6])
    g.append_tokens([4, 5, 6])
    assert g.is_done()
    assert g.get_sequence(0).tolist() == [4, 5, 6]
    with pytest.raises(ContextLengthError, match="3 of 3"):
        g.generate_next_token()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_return_sequences": 2}, "num_return_sequences=2 needs as many beams, num_beams is 1"),
        ({"num_beams": 2, "num_return_sequences": 3}, "num_return_sequences=3 needs as many beams"),
        ({"diversity_penalty": 0.5}, "diversity_penalty=0.5 keeps beams apart, but num_beams is 1"),
        ({"num_beams": 2, "do_sample": True}, "do_sample=True draws tokens, and num_beams=2"),
    ],
)
def test_options_that_contradict_each_other_are_refused(folder, options, message):
    with pytest.raises(OptionError, match=message):
        open_generator(folder, **options)


def test_sampling_options_that_draw_nothing_do_not_contradict_beams(folder):
    for options in ({"do_sample": True, "top_k": 1}, {"do_sample": True, "temperature": 0.0}):
        g = open_generator(folder, num_beams=2, max_length=8, **options)
        g.append_tokens([7, 8])
        assert [run(g).get_sequence(0).tolist()] == wanted([[7, 8]], max_new_tokens=6, num_beams=2)
