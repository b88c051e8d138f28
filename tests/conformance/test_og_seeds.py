"""A seed draws the same tokens with ``import onnxruntime_genai as og`` and ``import onnxgen as og``."""

from __future__ import annotations

import numpy as np
import pytest

import onnxgen
from bigram_models import write_bigram_folder
from published_models import published

genai = pytest.importorskip("onnxruntime_genai", reason="needs the extra: interop")

pytestmark = pytest.mark.interop

OPTIONS = [
    {"top_k": 40},
    {"top_k": 50, "top_p": 0.8, "temperature": 0.7},
    {"top_k": 0, "top_p": 0.95},
    {"top_k": 0, "top_p": 0.37, "temperature": 1.3},
    {"top_k": 0, "top_p": 1.0, "temperature": 0.9},
    {"repetition_penalty": 1.3, "top_k": 30},
]
SEEDS = [0, 1, 2, 3, 42, 123, 1000, 7919, 65535, 99991, 123456, 10**6, 2**24, 2**30, 2**31 - 1]
SEEDS += [int(seed) for seed in np.random.default_rng(20261130).integers(2**31, size=20 - len(SEEDS))]
GPT2 = "hf-internal-testing/tiny-random-gpt2-fp32"


def sampled(og, model, prompts, new_tokens, **search):
    params = og.GeneratorParams(model)
    length = len(prompts[0])
    params.set_search_options(
        batch_size=len(prompts), do_sample=True, max_length=length + new_tokens, **search
    )
    generator = og.Generator(model, params)
    generator.append_tokens(np.array(prompts, np.int32))
    steps = []
    while not generator.is_done():
        generator.generate_next_token()
        steps.append(generator.get_next_tokens().tolist())
    return steps


@pytest.fixture(scope="module", params=["gpt2", "random", "ties", "few tokens"])
def models(request, tmp_path_factory):
    """The same folder, opened by both."""
    if request.param == "gpt2":
        path = published(GPT2)
    else:
        rng = np.random.default_rng(7)
        vocab = 50 if request.param == "few tokens" else 700
        table = rng.normal(scale=2.5, size=(vocab, vocab)).astype(np.float32)
        if request.param == "ties":
            table = np.round(table * 4) / 4
        path = write_bigram_folder(tmp_path_factory.mktemp("model") / "bigrams", table, eos=(3, 11))
    return onnxgen.Model(path), genai.Model(str(path))


@pytest.mark.parametrize("num_rows", [1, 3])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_seed_draws_their_tokens(models, options, num_rows):
    ours, theirs = models
    rng = np.random.default_rng(num_rows)
    for seed in SEEDS:
        prompts = rng.integers(20, ours.spec.vocab_size, (num_rows, 4)).tolist()
        expected = sampled(genai, theirs, prompts, 20, random_seed=seed, **options)
        assert sampled(onnxgen, ours, prompts, 20, random_seed=seed, **options) == expected


def test_tokens_are_drawn_over_turns_alike(models):
    ours, theirs = models
    if ours.type == "gpt2":
        pytest.skip("onnxruntime-genai cannot append several tokens to this model's cache")

    def talk(og, model):
        params = og.GeneratorParams(model)
        params.set_search_options(do_sample=True, random_seed=5, top_k=40, max_length=60)
        generator = og.Generator(model, params)
        for turn in range(3):
            generator.append_tokens([20 + turn, 30, 40])
            for _ in range(6):
                if generator.is_done():
                    break
                generator.generate_next_token()
        return generator.get_sequence(0).tolist()

    assert talk(onnxgen, ours) == talk(genai, theirs)
