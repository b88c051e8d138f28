"""Our changes and narrowings of logits beside transformers' processors: scripts/make_sampling_goldens.py.

Where conventions differ: transformers removes banned tokens, ours keep the lowest float32, so that a row always has a choice;
its processor for bad words leaves out single end-of-sequence tokens if it is told of them (here it is not); and in its own
pipeline min-p and typical sampling come last (here they stand in our order).
"""

import json
from functools import cache
from pathlib import Path

import numpy as np

from onnxgen.engine.sampling.edits import BANNED
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.row_draws import draw_of
from onnxgen.engine.sampling.rows import RowSampler
from onnxgen.graph.cpu.draws import distribution
from sampled_sequences import SampledSequence

GOLDEN = Path(__file__).resolve().parents[3] / "goldens" / "sampling.npz"


@cache
def golden():
    with np.load(GOLDEN) as file:
        return dict(file)


def cases(kind):
    """Number, sequence, logits and transformers' scores of each case."""
    data = golden()
    for i, case in enumerate(json.loads(str(data["cases"]))):
        if case["kind"] == kind:
            options = SamplingOptions(**case["options"], seed=0)
            history = data[f"history_{i}"].tolist()
            sequence = SampledSequence(options, history, case["prompt_tokens"])
            yield i, sequence, data["logits"][i], data["scores"][i]


def test_changed_logits_are_those_of_transformers():
    sampler = RowSampler(eos_ids=golden()["eos_ids"].tolist())
    found = list(cases("change"))
    assert len(found) > 60
    rows = sampler.process(
        np.stack([row for _, _, row, _ in found]), [sequence for _, sequence, _, _ in found]
    )
    for row, (i, _, _, scores) in zip(rows, found, strict=True):
        expected = np.where(np.isneginf(scores), -np.inf, scores)
        np.testing.assert_allclose(
            np.where(row <= BANNED, -np.inf, row), expected, rtol=1e-6, atol=1e-6, err_msg=f"case {i}"
        )


def test_what_may_be_drawn_is_what_transformers_keeps():
    found = list(cases("narrow"))
    assert len(found) > 60
    for i, sequence, row, scores in found:
        tokens, probabilities = distribution(row, draw_of(sequence))
        kept = np.flatnonzero(~np.isneginf(scores))
        assert sorted(tokens.tolist()) == kept.tolist(), f"case {i}"
        weights = np.exp(scores.astype(np.float64) - scores.max())
        np.testing.assert_allclose(
            probabilities, (weights / weights.sum())[tokens], rtol=1e-5, err_msg=f"case {i}"
        )
