"""Beam search over every backend: caches that are copied, cut and recomputed show in nothing."""

from __future__ import annotations

import numpy as np
import pytest

import beam_oracle
from backend_cases import CASE_NAMES, make_case
from onnxgen.engine.beams.answers import BeamModel, beam_answers
from onnxgen.engine.beams.options import TRANSFORMERS, BeamOptions

VOCAB, LONGEST = 61, 12


@pytest.fixture(scope="module", params=CASE_NAMES)
def case(request, tmp_path_factory):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    made = make_case(request.param, tmp_path_factory.mktemp(request.param), seed)
    yield made
    made.backend.close()


def sum_of_logprobs(case, prompt, answer, ended_by):
    """Of a whole sequence at once, step by step where rotary factors depend on the length."""
    tokens = [*answer, *ended_by]
    total = 0.0
    for n, token in enumerate(tokens):
        row = case.logits([*prompt, *tokens[:n]])[-1].astype(np.float64)
        total += row[token] - row.max() - np.log(np.exp(row - row.max()).sum())
    return total


@pytest.mark.parametrize("groups", [1, 2])
def test_answers_and_scores_are_the_oracles(case, groups):
    rng = np.random.default_rng()
    prompts = [rng.integers(VOCAB, size=n).tolist() for n in (6, 1, 11)]
    eos = rng.integers(VOCAB, size=2).tolist()
    options = BeamOptions(
        4,
        num_return_sequences=4,
        num_beam_groups=groups,
        diversity_penalty=0.4 if groups > 1 else 0.0,
        length_penalty=0.0,
        early_stopping="never",
    )
    model = BeamModel(case.backend, eos_ids=eos, chunk_tokens=5, rope_switch_length=case.rope_switch)
    got = beam_answers(model, prompts, options, max_new_tokens=LONGEST)
    others = 0
    tolerance = max(1e-4, 4 * case.tolerance)
    for prompt, answers in zip(prompts, got, strict=True):
        assert len(answers) == 4
        if groups == 1:  # else the penalty is part of the sums
            for answer in answers:
                ends = [[token] for token in eos] if answer.finish_reason == "eos" else [[]]
                sums = [sum_of_logprobs(case, prompt, answer.token_ids, end) for end in ends]
                assert min(abs(answer.sum_logprobs - total) for total in sums) < tolerance
        wanted = beam_oracle.Wanted(
            4, 0.0, "never", groups, options.diversity_penalty, TRANSFORMERS.length_of
        )
        found = beam_oracle.search(
            lambda tokens: case.logits(list(tokens))[-1],
            tuple(prompt),
            wanted,
            eos=set(eos),
            max_new_tokens=LONGEST,
        )[:4]
        others += [a.token_ids for a in answers] != [f.answer for f in found]
    # where scores are nearer to each other than rounding can tell, which hardly happens in float32, beams may be others
    assert others <= (1 if tolerance <= 1e-3 else len(prompts))
