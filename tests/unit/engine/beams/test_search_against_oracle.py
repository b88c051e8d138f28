"""The search against a second implementation, on vocabularies so small that everything can be enumerated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_oracle
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.beams.answers import BeamModel, beam_answers
from onnxgen.engine.beams.options import ONNXRUNTIME_GENAI, TRANSFORMERS, BeamOptions, BeamRules

RULES = {
    "transformers": TRANSFORMERS,
    "onnxruntime-genai": ONNXRUNTIME_GENAI,
    "mixed": BeamRules(length_of="answer", processed="logits", best_of="candidates", limit_ends="beams"),
}


@st.composite
def searches(draw):
    group_beams, groups = draw(st.integers(1, 4)), draw(st.sampled_from([1, 1, 2, 3]))
    beams = group_beams * groups
    options = BeamOptions(
        num_beams=beams,
        num_return_sequences=draw(st.integers(1, beams)),
        length_penalty=draw(st.sampled_from([0.0, 1.0, 2.0, -1.0, 3.0, 0.5])),
        early_stopping=draw(st.sampled_from([True, False, "never"])),
        num_beam_groups=groups,
        diversity_penalty=draw(st.sampled_from([0.3, 1.0, 5.0])) if groups > 1 else 0.0,
    )
    # every group finds its beams, end tokens or not
    vocab = draw(st.integers(group_beams + 3, 9))
    eos = draw(st.sets(st.integers(0, vocab - 1), max_size=3))
    prompts = draw(
        st.lists(st.lists(st.integers(0, vocab - 1), min_size=1, max_size=6), min_size=1, max_size=3)
    )
    return options, vocab, sorted(eos), prompts, draw(st.integers(1, 8)), draw(st.sampled_from([None, 1, 3]))


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=120, deadline=None)
@given(case=searches())
def test_answers_and_scores_are_the_oracles(name, case):
    options, vocab, eos, prompts, longest, block_size = case
    rules = RULES[name]
    backend = FakeBackend(vocab, block_size=block_size, max_context=40)
    got = beam_answers(BeamModel(backend, eos_ids=eos), prompts, options, max_new_tokens=longest, rules=rules)
    wanted = beam_oracle.Wanted(
        options.num_beams,
        options.length_penalty,
        options.early_stopping,
        options.num_beam_groups,
        options.diversity_penalty,
        rules.length_of,
        rules.best_of,
        rules.limit_ends,
    )
    for prompt, answers in zip(prompts, got, strict=True):
        found = beam_oracle.search(
            backend.logits_after, tuple(prompt), wanted, eos=set(eos), max_new_tokens=longest
        )[: options.num_return_sequences]
        assert [(a.token_ids, a.finish_reason) for a in answers] == [
            (f.answer, "length" if f.eos is None else "eos") for f in found
        ]
        np.testing.assert_allclose([a.score for a in answers], [f.score for f in found], rtol=1e-5)
