"""Beam search on built folders against transformers: the same answers in the same order, with the same scores."""

from __future__ import annotations

import json

import numpy as np
import pytest

import onnxgen as og
from checkpoints import CHECKPOINTS, digest, write_checkpoint
from golden_data import FOLDER
from onnxgen.builder import BuildOptions, build
from onnxgen.engine.beams.answers import BeamModel, beam_answers
from onnxgen.engine.beams.options import TRANSFORMERS, BeamOptions, BeamRules
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.foundations.runtime_config import RuntimeConfig

NAMES = ["llama", "qwen3", "mistral", "phi3", "gemma3"]
# transformers 4, the last version with groups, counts like this
WITH_GROUPS = BeamRules(length_of="answer", processed="logprobs", best_of="candidates", limit_ends="beams")
OF_BEAMS = {
    "num_beams",
    "num_return_sequences",
    "length_penalty",
    "early_stopping",
    "num_beam_groups",
    "diversity_penalty",
}
TOLERANCE = {"ort": 2e-5, "native": 0.02}  # of scores; the native backend keeps keys and values in 16 bits


def golden(name, kind=""):
    data = json.loads((FOLDER / "beams" / f"{name}{kind}.json").read_text(encoding="utf-8"))
    assert data["made_by"]["weights"] == digest(CHECKPOINTS[name]), (
        f"the golden file belongs to other weights of {name}; run scripts/make_beam_goldens.py"
    )
    return data


@pytest.fixture(scope="module", params=NAMES)
def folder(request, tmp_path_factory):
    work = tmp_path_factory.mktemp(request.param)
    checkpoint = write_checkpoint(CHECKPOINTS[request.param], work / "checkpoint")
    build(checkpoint, work / "model", options=BuildOptions(precision="fp32"))
    return request.param, work / "model"


def answers_of(model, data, case, prompts, *, rules):
    asked = case["options"]
    sampling = {key: value for key, value in asked.items() if key not in OF_BEAMS}
    found = []
    least = sampling.pop("min_new_tokens", 0)
    # a minimum of new tokens is one of all tokens for each prompt
    for group in [[p] for p in prompts] if least else [prompts]:
        found += beam_answers(
            BeamModel(model.backend, eos_ids=case["eos"]),
            group,
            BeamOptions(**{key: value for key, value in asked.items() if key in OF_BEAMS}),
            max_new_tokens=data["max_new_tokens"],
            sampling=SamplingOptions(**sampling, min_length=len(group[0]) + least if least else 0),
            rules=rules,
        )
    return found


def check(model, data, *, rules, tolerance):
    """All searches; returns how many of the answers are not the golden ones, and how many there are."""
    wrong = total = 0
    for case in data["searches"]:
        found = answers_of(model, data, case, data["prompts"], rules=rules)
        for answers, wanted in zip(found, case["answers"], strict=True):
            assert len(answers) == len(wanted)
            got = [[list(a.token_ids), a.finish_reason == "eos"] for a in answers]
            differ = got != [[tokens, eos is not None] for tokens, eos, _ in wanted]
            wrong, total = wrong + differ, total + 1
            np.testing.assert_allclose(
                [a.score for a in answers],
                [w[2] for w in wanted],
                rtol=tolerance,
                atol=tolerance,
                err_msg=str(case),
            )
    return wrong, total


def test_answers_and_scores_are_the_golden_ones(folder):
    name, path = folder
    with og.Model(path, runtime=RuntimeConfig(threads=1, backend="ort")) as model:
        wrong, total = check(model, golden(name), rules=TRANSFORMERS, tolerance=TOLERANCE["ort"])
    assert wrong == 0
    assert total > 30


def test_the_native_backend_finds_them_too(folder):
    name, path = folder
    with og.Model(path, runtime=RuntimeConfig(threads=1, backend="native")) as model:
        wrong, total = check(model, golden(name), rules=TRANSFORMERS, tolerance=TOLERANCE["native"])
    # ranks may change where scores are nearer to each other than 16 bits can tell
    assert wrong <= total // 10


def test_groups_are_the_golden_ones(folder):
    name, path = folder
    with og.Model(path, runtime=RuntimeConfig(threads=1, backend="ort")) as model:
        wrong, total = check(model, golden(name, "-groups"), rules=WITH_GROUPS, tolerance=TOLERANCE["ort"])
    assert wrong == 0
    assert total > 30


def test_a_prompt_alone_gets_what_it_gets_among_others(folder):
    name, path = folder
    data = golden(name)
    with og.Model(path, runtime=RuntimeConfig(threads=1, backend="ort")) as model:
        for case in data["searches"][:6]:
            together = answers_of(model, data, case, data["prompts"], rules=TRANSFORMERS)
            for prompt, answers in zip(data["prompts"], together, strict=True):
                (alone,) = answers_of(model, data, case, [prompt], rules=TRANSFORMERS)
                assert [a.token_ids for a in alone] == [a.token_ids for a in answers]
                np.testing.assert_allclose([a.score for a in alone], [a.score for a in answers], rtol=1e-5)
