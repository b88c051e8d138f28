import numpy as np
import pytest

from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.sequence_sampler import SequenceSampler
from onnxgen.errors import BackendError

EMPTY = np.array([], np.int64)


def choose(options, logits, history=EMPTY, eos=()):
    sampler = SequenceSampler([options], eos_ids=eos)
    return sampler(np.atleast_2d(np.asarray(logits, np.float32)), sequences=[0], histories=[history])[0]


def test_greedy_takes_the_first_maximum():
    assert choose(SamplingOptions(), [0, 5, 5, 1]) == 1


def test_the_drawn_share_follows_the_softmax():
    logits = np.log(np.array([0.5, 0.3, 0.2], np.float32))
    sampler = SequenceSampler([SamplingOptions(temperature=1.0, seed=3)], eos_ids=())
    history = np.zeros(3000, np.int64)
    drawn = [sampler(logits[None], sequences=[0], histories=[history[:n]])[0] for n in range(3000)]
    np.testing.assert_allclose(np.bincount(drawn) / 3000, [0.5, 0.3, 0.2], atol=0.03)


def test_one_seed_draws_different_tokens_at_different_positions():
    sampler = SequenceSampler([SamplingOptions(temperature=1.0, seed=1)], eos_ids=())
    flat = np.zeros((1, 50_000), np.float32)
    drawn = [sampler(flat, sequences=[0], histories=[np.zeros(n, np.int64)])[0] for n in range(20)]
    assert len(set(drawn)) == 20


def test_without_a_seed_runs_differ():
    flat = np.zeros(50_000, np.float32)
    assert len({choose(SamplingOptions(temperature=1.0), flat) for _ in range(5)}) > 1


def test_a_row_does_not_depend_on_its_neighbours():
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    options = [
        SamplingOptions(repetition_penalty=1.5),
        SamplingOptions(temperature=0.8, top_k=5, seed=1),
        SamplingOptions(temperature=1.2, top_p=0.8, seed=2),
        SamplingOptions(temperature=1.0, seed=3, min_length=50),
        SamplingOptions(no_repeat_ngram_size=2),
        SamplingOptions(temperature=2.0, top_k=900, top_p=0.5, seed=4),
    ]
    logits = rng.normal(size=(6, 1000)).astype(np.float32)
    histories = [rng.integers(1000, size=rng.integers(1, 40)) for _ in range(6)]
    alone = [choose(o, row, h, eos=(7,)) for o, row, h in zip(options, logits, histories, strict=True)]
    order = rng.permutation(6).tolist()
    together = SequenceSampler(options, eos_ids=(7,))(
        logits[order], sequences=order, histories=[histories[i] for i in order]
    )
    assert together == [alone[i] for i in order]


def test_the_models_logits_are_not_changed():
    logits = np.ones((1, 8), np.float32)
    options = SamplingOptions(repetition_penalty=2.0, min_length=9, no_repeat_ngram_size=1)
    SequenceSampler([options], eos_ids=(1,))(logits, sequences=[0], histories=[np.array([2, 3])])
    np.testing.assert_array_equal(logits, 1)


def test_a_penalty_does_not_lift_a_ban():
    options = SamplingOptions(repetition_penalty=1e-30, no_repeat_ngram_size=1)
    assert choose(options, [-1.0, -2.0], history=np.array([0])) == 1


def test_a_row_with_everything_banned_still_has_a_choice():
    assert choose(SamplingOptions(no_repeat_ngram_size=1), [1, 2], history=np.array([0, 1])) in (0, 1)
    drawn = SamplingOptions(no_repeat_ngram_size=1, temperature=1.0)
    assert choose(drawn, [1, 2], history=np.array([0, 1])) in (0, 1)


@pytest.mark.parametrize("broken", [[np.nan, 1.0], [1.0, np.inf]])
def test_a_numerically_broken_model_is_reported(broken):
    with pytest.raises(BackendError, match="numerically broken"):
        choose(SamplingOptions(temperature=1.0), broken)
