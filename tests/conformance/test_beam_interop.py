"""Beam search through ``Generator`` beside onnxruntime-genai itself: the golden sequences, and random searches."""

from __future__ import annotations

import json

import numpy as np
import pytest

import onnxgen
from checkpoints import CHECKPOINTS, write_checkpoint
from onnxgen.builder import BuildOptions, build
from onnxgen.foundations.runtime_config import RuntimeConfig
from published_models import published

genai = pytest.importorskip("onnxruntime_genai", reason="needs the extra: interop")

pytestmark = pytest.mark.interop

GPT2 = "hf-internal-testing/tiny-random-gpt2-fp32"
ROWS = [
    [0, 0, 0, 0, 0, 52, 195, 731, 321, 301, 734, 620],
    [41, 554, 74, 622, 206, 222, 75, 223, 221, 198, 224, 572],
    [0, 0, 0, 52, 328, 219, 328, 206, 288, 227, 896, 328],
]


def open_model(og, path, eos=None):
    config = og.Config(str(path))
    if eos is not None:
        config.overlay(json.dumps({"model": {"eos_token_id": eos}}))
    if og is onnxgen:
        # the native backend keeps keys and values in 16 bits, which would be a third opinion
        return onnxgen.Model(config, runtime=RuntimeConfig(backend="ort", threads=1))
    return og.Model(config)


def generate(og, model, rows, **search):
    """Sequences, and after each step the length and the tokens of all beams."""
    params = og.GeneratorParams(model)
    params.set_search_options(batch_size=len(rows), **search)
    generator = og.Generator(model, params)
    generator.append_tokens(np.array(rows, np.int32))
    steps = []
    while not generator.is_done():
        generator.generate_next_token()
        steps.append((generator.token_count(), generator.get_next_tokens().tolist()))
    count = len(rows) * search.get("num_return_sequences", 1)
    return [generator.get_sequence(i).tolist() for i in range(count)], steps


def test_the_published_gpt2_gives_its_golden_beams():
    model = open_model(onnxgen, published(GPT2))
    sequences, _ = generate(onnxgen, model, ROWS, num_beams=4, length_penalty=1.0, max_length=20)
    assert [s[12:] for s in sequences] == [
        [131, 131, 131, 181, *[638] * 4],
        [292] * 8,
        [328, *[669] * 7],
    ]


def test_every_step_is_that_of_onnxruntime_genai():
    search = {"num_beams": 4, "num_return_sequences": 3, "max_length": 20}
    wanted = generate(genai, open_model(genai, published(GPT2)), ROWS, **search)
    assert generate(onnxgen, open_model(onnxgen, published(GPT2)), ROWS, **search) == wanted


def random_search(rng, vocab):
    """Prompts and options. Without early stopping one prompt: the original looks at the wrong row for others."""
    length, beams, early = int(rng.integers(1, 12)), int(rng.integers(2, 7)), bool(rng.integers(2))
    rows = rng.integers(3, vocab, size=(int(rng.integers(1, 4)) if early else 1, length)).tolist()
    search = {
        "num_beams": beams,
        "num_return_sequences": int(rng.integers(1, beams + 1)),
        "max_length": length + int(rng.integers(1, 20)),
        "length_penalty": float(rng.choice([0, 1, 2, -1, 3, 0.5])),
        "early_stopping": early,
    }
    more = [{}, {}, {"repetition_penalty": 1.5}, {"no_repeat_ngram_size": 2}, {"min_length": length + 4}]
    return rows, {**search, **more[int(rng.integers(len(more)))]}


def compare(path, vocab, count):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    differ, ended = [], 0
    for _ in range(count):
        rows, search = random_search(rng, vocab)
        first = {"num_beams": search["num_beams"], "max_length": search["max_length"]}
        _, steps = generate(onnxgen, open_model(onnxgen, path), rows, **first)
        # a token that beams like, so that sequences end
        eos = int(rng.choice([token for _, tokens in steps for token in tokens]))
        got, _ = generate(onnxgen, open_model(onnxgen, path, eos), rows, **search)
        wanted, _ = generate(genai, open_model(genai, path, eos), rows, **search)
        ended += sum(len(sequence) < search["max_length"] for sequence in wanted)
        if got != wanted:
            differ.append((rows, search, eos, got, wanted))
    assert ended
    # its scores are float32, so of candidates that hardly differ it may take the other one
    assert len(differ) <= 1, differ


def test_random_searches_of_the_published_gpt2_are_those_of_onnxruntime_genai():
    compare(published(GPT2), 1000, 25)


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_random_searches_of_built_folders_are_those_of_onnxruntime_genai(name, tmp_path):
    checkpoint = CHECKPOINTS[name]
    build(
        write_checkpoint(checkpoint, tmp_path / "checkpoint"),
        tmp_path / "model",
        options=BuildOptions(precision="fp32"),
    )
    compare(tmp_path / "model", checkpoint.config["vocab_size"], 8)
