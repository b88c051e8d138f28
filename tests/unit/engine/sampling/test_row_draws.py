"""Options of drawing reach the kernel, and Mirostat remembers its bound by position."""

import copy
from dataclasses import fields

import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.row_draws import draw_of, note_surprise
from onnxgen.engine.sampling.rows import RowSampler
from onnxgen.graph.cpu.draws import Draw
from sampled_sequences import SampledSequence


def test_every_option_of_drawing_reaches_the_kernel():
    options = SamplingOptions(
        temperature=0.9,
        top_k=7,
        top_p=0.8,
        top_n_sigma=1.5,
        typical_p=0.7,
        min_p=0.02,
        top_a=0.3,
        xtc_probability=0.4,
        xtc_threshold=0.2,
        mirostat=2,
        mirostat_tau=4.0,
        seed=5,
        stream=6,
    )
    draw = draw_of(SampledSequence(options, [1, 2, 3]))
    for field in fields(Draw):
        expected = {"position": 3, "mirostat_mu": 8.0}.get(field.name, getattr(options, field.name, None))
        assert getattr(draw, field.name) == expected, field.name
        assert getattr(draw, field.name) != field.default, field.name


def answers(logits, row, count):
    sampler = RowSampler(eos_ids=())
    for _ in range(count):
        (token,) = sampler.choose(logits[len(row.tokens)][None], [row])
        row.tokens.append(token)
    return list(row.tokens)


@pytest.mark.parametrize("version", [1, 2])
def test_a_rewound_sequence_draws_what_it_drew_before(version):
    rng = fresh_rng()
    logits = rng.normal(scale=2, size=(40, 500)).astype(np.float32)
    options = SamplingOptions(
        temperature=1.0, mirostat=version, mirostat_tau=3.0, mirostat_eta=0.5, seed=int(rng.integers(2**32))
    )
    row = SampledSequence(options, [0, 1], prompt_tokens=2)
    whole = answers(logits, row, 30)
    bounds = {
        draw_of(SampledSequence(options, whole[:n], row_state=copy.deepcopy(row.row_state))).mirostat_mu
        for n in range(2, 33)
    }
    assert len(bounds) > 20  # it does learn
    del row.tokens[12:]
    assert answers(logits, row, 20) == whole
    fresh = SampledSequence(options, [0, 1], prompt_tokens=2)
    assert answers(logits, fresh, 30) == whole


def test_the_bound_moves_towards_the_surprise_aimed_at():
    options = SamplingOptions(temperature=1.0, mirostat=2, mirostat_tau=3.0, mirostat_eta=0.5, seed=0)
    row = SampledSequence(options, [1, 2])
    note_surprise(row, 5.0)
    row.tokens.append(3)
    assert draw_of(row).mirostat_mu == 6.0 - 0.5 * (5.0 - 3.0)


def test_a_bound_without_end_stays_one_that_can_be_computed_with():
    rng = fresh_rng()
    logits = rng.normal(size=(1, 50)).astype(np.float32)
    options = SamplingOptions(temperature=1.0, mirostat=2, mirostat_tau=0.0, mirostat_eta=1.0, seed=0)
    row = SampledSequence(options, [1])
    note_surprise(row, 1e9)
    row.tokens.append(2)
    assert RowSampler(eos_ids=()).choose(logits, [row]) == [int(logits.argmax())]


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"temperature": 1.0, "forced_tokens": {1: 3}}])
def test_a_token_that_was_not_drawn_teaches_nothing(options):
    row = SampledSequence(
        SamplingOptions(mirostat=2, mirostat_tau=4.0, seed=0, **options), [1], prompt_tokens=0
    )
    row.tokens += RowSampler(eos_ids=()).choose(np.zeros((1, 9), np.float32), [row])
    assert draw_of(row).mirostat_mu == 8.0
